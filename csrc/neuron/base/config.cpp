// SPDX-License-Identifier: Apache-2.0
#include "neuron/base/config.h"

#include <cstdlib>
#include <type_traits>

#include "neuron/base/error.h"

namespace neuron {
namespace {

[[noreturn]] void bad_value(const char* variable, const std::string& text, const char* expected) {
  throw Error(ErrorCode::kInvalidArgument,
              std::string(variable) + "=" + text + " is not valid: expected " + expected);
}

void parse(const char* variable, const std::string& text, bool* out) {
  if (text == "1" || text == "true" || text == "True" || text == "on") {
    *out = true;
  } else if (text == "0" || text == "false" || text == "False" || text == "off") {
    *out = false;
  } else {
    bad_value(variable, text, "0 or 1");
  }
}

void parse(const char* variable, const std::string& text, int64_t* out) {
  char* end = nullptr;
  *out = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || *end != '\0') bad_value(variable, text, "an integer");
  if (*out < 0) bad_value(variable, text, "a number that is not negative");
}

void parse(const char* variable, const std::string& text, double* out) {
  char* end = nullptr;
  *out = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0') bad_value(variable, text, "a number");
  if (!(*out >= 0)) bad_value(variable, text, "a number that is not negative");
}

void parse(const char*, const std::string& text, std::string* out) { *out = text; }

constexpr double kLongestDelayMs = 3600e3;

// OMP_NUM_THREADS is OpenMP's variable and may hold a list ("4,2"); the first level counts.
std::string first_level(const char* variable, std::string text) {
  if (std::string(variable) == "OMP_NUM_THREADS") text = text.substr(0, text.find(','));
  return text;
}

std::string text_of(bool v) { return v ? "1" : "0"; }
std::string text_of(int64_t v) { return std::to_string(v); }
std::string text_of(const std::string& v) { return v; }
std::string text_of(double v) {
  std::string text = std::to_string(v);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

Config read() {
  Config c;
#define NEURON_CONFIG_READ(member, type, variable, def, description) \
  if (const char* text = std::getenv(variable); text != nullptr && *text != '\0') \
    parse(variable, first_level(variable, text), &c.member);
  NEURON_CONFIG(NEURON_CONFIG_READ)
#undef NEURON_CONFIG_READ
  if (c.eager_mode != "adaptive" && c.eager_mode != "strict")
    bad_value("TORCH_NEURONX_EAGER_MODE", c.eager_mode, "adaptive or strict");
  if (c.fallback != "allow" && c.fallback != "warn" && c.fallback != "error")
    bad_value("TORCH_NEURONX_FALLBACK", c.fallback, "allow, warn or error");
  parse_emulated_compile_time(c.emulate_compile_ms);
  if (c.emulate_launch_us > 1000 * kLongestDelayMs) {
    bad_value("TORCH_NEURONX_EMULATE_LAUNCH_US", text_of(c.emulate_launch_us), "at most an hour");
  }
  if (c.max_inflight_ops < 1) bad_value("TORCH_NEURONX_MAX_INFLIGHT_OPS", "0", "at least 1");
  return c;
}

template <typename T>
std::string type_name() {
  if constexpr (std::is_same_v<T, bool>) return "bool";
  if constexpr (std::is_same_v<T, int64_t>) return "integer";
  if constexpr (std::is_same_v<T, double>) return "number";
  return "text";
}

}  // namespace

EmulatedCompileTime parse_emulated_compile_time(const std::string& text) {
  constexpr const char* kVariable = "TORCH_NEURONX_EMULATE_COMPILE_MS";
  EmulatedCompileTime time;
  if (text.empty()) return time;
  const size_t comma = text.find(',');
  if (comma == std::string::npos) bad_value(kVariable, text, "BASE,PER_OP in milliseconds");
  parse(kVariable, text.substr(0, comma), &time.base_ms);
  parse(kVariable, text.substr(comma + 1), &time.per_operation_ms);
  if (time.base_ms > kLongestDelayMs || time.per_operation_ms > kLongestDelayMs) {
    bad_value(kVariable, text, "at most an hour each");
  }
  return time;
}

const Config& config() {
  static const Config* const instance = new Config(read());  // leaks: read until process end
  return *instance;
}

std::vector<ConfigEntry> config_entries() {
  const Config defaults;
  const Config& current = config();
  std::vector<ConfigEntry> entries;
#define NEURON_CONFIG_ENTRY(member, type, variable, def, description)                             \
  entries.push_back({variable, type_name<type>(), text_of(defaults.member), text_of(current.member), \
                     description});
  NEURON_CONFIG(NEURON_CONFIG_ENTRY)
#undef NEURON_CONFIG_ENTRY
  return entries;
}

}  // namespace neuron
