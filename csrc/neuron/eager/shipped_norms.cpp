// SPDX-License-Identifier: Apache-2.0
//
// Norms.
#include <string_view>
#include <vector>

#include "neuron/eager/shipped_families.h"
#include "neuron/lower/lowering.h"

namespace neuron {
namespace {

using Operand = ShippedCollector::Operand;
constexpr int64_t kGroups = ShippedCollector::kGroups;

struct NormTypes {
  DType data, parameters, statistics;
};

std::vector<NormTypes> norm_types() {
  std::vector<NormTypes> types;
  for (DType t : kModelDtypes) types.push_back({t, t, t});
  types.push_back({DType::kFloat64, DType::kFloat64, DType::kFloat64});
  // Half precision data with f32 parameters, as autocast leaves them.
  for (DType t : {DType::kBFloat16, DType::kFloat16}) {
    types.push_back({t, DType::kFloat32, DType::kFloat32});
  }
  return types;
}

// Words of norms beside layer norm, see lower/norm_ops.h.
AttributeWriter norm_words(int64_t shape, int64_t present, int64_t wanted, int values) {
  AttributeWriter a;
  a.structural(shape);
  a.structural(present);
  a.structural(wanted);
  for (int v = 0; v < values; ++v) a.value(1e-5);
  return a;
}

// Layouts of inputs with channels: images, rows, channels last.
constexpr std::string_view kChannelLayouts[][2] = {{"abc", "abc"}, {"ab", "ab"}, {"abc", "acb"}};

}  // namespace

void ship_layer_norm(ShippedCollector& c, LoweredOp op) {
  struct Rows {
    const char* shape;
    const char* layout;
  };
  for (const NormTypes& t : norm_types()) {
    for (const Rows& rows : {Rows{"ab", "ab"}, Rows{"b", "b"}, Rows{"abc", "a_bc"},
                             Rows{"ab", "ba"}, Rows{"abc", "acb"}}) {
      const std::string_view shape = rows.shape, width = shape.substr(shape.size() - 1);
      const std::string_view leading = shape.substr(0, shape.size() - 1);
      for (int present : {0b001, 0b011, 0b111}) {
        AttributeWriter a;
        a.structural(1);
        a.structural(present);
        a.structural(0b111);
        a.value(1e-5);
        std::vector<Operand> inputs{{t.data, rows.layout}};
        const Operand parameter{t.parameters, width, width};
        if ((present & 2) != 0) inputs.push_back(parameter);
        if ((present & 4) != 0) inputs.push_back(parameter);
        const Operand statistic{t.statistics, leading, rows.shape};
        c.add(op, rows.shape, inputs, {{t.data, rows.shape}, statistic, statistic}, a);
      }
    }
  }
}

void ship_layer_norm_backward(ShippedCollector& c, LoweredOp op) {
  const auto add = [&](const NormTypes& t, std::string_view grad, std::string_view input,
                       bool weight, int wanted) {
    AttributeWriter a;
    a.structural(1);
    a.structural(weight ? 0b11111 : 0b1111);
    a.structural(wanted);
    std::vector<Operand> inputs{
        {t.data, grad}, {t.data, input}, {t.statistics, "a"}, {t.statistics, "a"}};
    const Operand parameter{t.parameters, "b", "b"};
    if (weight) inputs.push_back(parameter);
    std::vector<Operand> outputs;
    if ((wanted & 1) != 0) outputs.push_back({t.data, "ab"});
    if ((wanted & 2) != 0) outputs.push_back(parameter);
    if ((wanted & 4) != 0) outputs.push_back(parameter);
    c.add(op, "ab", inputs, outputs, a);
  };
  for (const NormTypes& t : norm_types()) {
    for (int wanted : {0b001, 0b010, 0b100, 0b110, 0b111}) {
      add(t, "ab", "ab", true, wanted);
      if ((wanted & 2) == 0) add(t, "ab", "ab", false, wanted);
    }
    // Channels that were moved to the end.
    add(t, "ab", "ba", true, 0b111);
    add(t, "ba", "ba", true, 0b111);
  }
}

void ship_rms_norm(ShippedCollector& c, LoweredOp op) {
  for (const NormTypes& t : norm_types()) {
    for (bool weight : {false, true}) {
      for (std::string_view shape : {"ab", "b"}) {
        std::vector<Operand> inputs{{t.data, shape}};
        if (weight) inputs.push_back({t.parameters, "b", "b"});
        const DType statistics = opmath(t.data);
        c.add(op, shape, inputs, {{t.data, shape}, {statistics, shape.substr(0, shape.size() - 1)}},
              norm_words(1, weight ? 0b11 : 0b01, 0, 1));
      }
    }
  }
}

void ship_rms_norm_backward(ShippedCollector& c, LoweredOp op) {
  for (const NormTypes& t : norm_types()) {
    const DType statistics = opmath(t.data);
    std::vector<Operand> inputs{{t.data, "ab"}, {t.data, "ab"}, {statistics, "a"}};
    c.add(op, "ab", inputs, {{t.data, "ab"}}, norm_words(1, 0b0111, 0b01, 0));
    const Operand weight{t.parameters, "b", "b"};
    inputs.push_back(weight);
    c.add(op, "ab", inputs, {{t.data, "ab"}, weight}, norm_words(1, 0b1111, 0b11, 0));
    c.add(op, "ab", inputs, {{t.data, "ab"}}, norm_words(1, 0b1111, 0b01, 0));
  }
}

void ship_batch_norm(ShippedCollector& c, LoweredOp op) {
  const bool training = op == LoweredOp::kBatchNorm;
  for (const NormTypes& t : norm_types()) {
    for (const auto& [shape, layout] : kChannelLayouts) {
      for (bool affine : {true, false}) {
        for (bool running : {true, false}) {
          if (!training && !running) continue;
          const Operand channel{t.parameters, "b", "b"}, statistic{t.statistics, "b", "b"};
          std::vector<Operand> inputs{{t.data, layout}}, outputs{{t.data, layout}};
          if (affine) inputs.insert(inputs.end(), {channel, channel});
          if (training) outputs.insert(outputs.end(), {statistic, statistic});
          for (int i = 0; running && i < 2; ++i) {
            inputs.push_back(statistic);
            Operand updated = statistic;
            updated.memory_of = static_cast<int>(inputs.size()) - 1;
            if (training) outputs.push_back(updated);
          }
          c.add(op, shape, inputs, outputs,
                norm_words(0, 1 | (affine ? 0b110 : 0) | (running ? 0b11000 : 0), 0,
                           op_info(op_id(op)).values));
        }
      }
    }
  }
}

void ship_batch_norm_backward(ShippedCollector& c, LoweredOp op) {
  for (const NormTypes& t : norm_types()) {
    for (const auto& [shape, layout] : kChannelLayouts) {
      for (bool weight : {true, false}) {
        const Operand channel{t.parameters, "b", "b"}, statistic{t.statistics, "b", "b"};
        std::vector<Operand> inputs{{t.data, layout}, {t.data, layout}}, outputs{{t.data, layout}};
        if (weight) inputs.push_back(channel);
        inputs.insert(inputs.end(), {statistic, statistic});
        if (weight) outputs.insert(outputs.end(), {channel, channel});
        c.add(op, shape, inputs, outputs,
              norm_words(0, weight ? 0b11111 : 0b11011, weight ? 0b111 : 0b001,
                         op_info(op_id(op)).values));
      }
    }
  }
}

// Dim 'g' of the shapes below has kGroups groups.
void ship_group_norm(ShippedCollector& c, LoweredOp op) {
  for (const NormTypes& t : norm_types()) {
    for (std::string_view shape : {"age", "ag"}) {
      for (int64_t groups : {int64_t{1}, kGroups}) {
        for (bool affine : {true, false}) {
          std::vector<Operand> inputs{{t.data, shape}};
          const Operand channel{t.parameters, "g", "g"};
          if (affine) inputs.insert(inputs.end(), {channel, channel});
          const std::string_view of_groups = groups == 1 ? "az" : "ac";  // kGroups is c's size
          const Operand statistic{t.statistics, of_groups, of_groups};
          c.add(op, shape, inputs, {{t.data, shape}, statistic, statistic},
                norm_words(groups, affine ? 0b111 : 0b001, 0, 1));
        }
      }
    }
  }
}

void ship_group_norm_backward(ShippedCollector& c, LoweredOp op) {
  for (const NormTypes& t : norm_types()) {
    for (int64_t groups : {int64_t{1}, kGroups}) {
      const std::string_view of_groups = groups == 1 ? "az" : "ac";
      const Operand statistic{t.statistics, of_groups, of_groups};
      const Operand channel{t.parameters, "g", "g"};
      c.add(op, "age", {{t.data, "age"}, {t.data, "age"}, statistic, statistic, channel},
            {{t.data, "age"}, channel, channel}, norm_words(groups, 0b11111, 0b111, 0));
      c.add(op, "age", {{t.data, "age"}, {t.data, "age"}, statistic, statistic}, {{t.data, "age"}},
            norm_words(groups, 0b01111, 0b001, 0));
    }
  }
}

}  // namespace neuron
