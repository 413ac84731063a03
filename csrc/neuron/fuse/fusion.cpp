// SPDX-License-Identifier: Apache-2.0
#include "neuron/fuse/fusion.h"

#include <algorithm>

#include "neuron/fuse/group.h"

namespace neuron {
namespace {

class Fuser {
 public:
  Fuser(const WindowForm& form, const FusionOptions& options) : form_(form), options_(options) {}

  Plan run() {
    facts_.reserve(form_.nodes.size());
    for (const FormNode& node : form_.nodes) facts_.push_back(node_facts(node));
    group_of_.assign(form_.nodes.size(), -1);
    for (size_t n = 0; n < form_.nodes.size(); ++n) place(static_cast<int>(n));
    return finish();
  }

 private:
  Group& group(int g) { return *groups_[static_cast<size_t>(g)]; }

  // Groups that `node` waits for; those that it must not join are in `apart`.
  void find_sources(int node, std::set<int>* sources, std::set<int>* apart) const {
    const FormNode& n = form_.nodes[static_cast<size_t>(node)];
    for (int e = n.first_edge; e < n.first_edge + n.edge_count; ++e) {
      const Edge& edge = form_.edges[static_cast<size_t>(e)];
      const int g = group_of_[static_cast<size_t>(edge.from)];
      sources->insert(g);
      if (edge.link == Link::kOrder) apart->insert(g);
    }
  }

  void place(int node) {
    std::set<int> sources, apart;
    find_sources(node, &sources, &apart);
    int home = add_group(single_group(form_, facts_, node));
    group_of_[static_cast<size_t>(node)] = home;
    depend(home, sources);
    if (!options_.fuse || form_.nodes[static_cast<size_t>(node)].host) return;
    std::vector<int> candidates;
    for (int g : sources) {
      if (!apart.contains(g) && !group(g).host) candidates.push_back(g);
    }
    std::sort(candidates.begin(), candidates.end(),
              [&](int a, int b) { return group(a).position > group(b).position; });
    for (int g : candidates) {
      if (const int merged = merge(g, home); merged >= 0) home = merged;
    }
  }

  int add_group(Group g) {
    g.position = next_position_++;
    groups_.push_back(std::move(g));
    return static_cast<int>(groups_.size()) - 1;
  }

  void depend(int g, const std::set<int>& sources) {
    for (int s : sources) {
      group(g).after.insert(s);
      group(s).before.insert(g);
    }
  }

  // Where `early` and `late`, which waits for it directly, can run as one: at the place of `late`
  // if nothing in between waits for `early`, or at the place of `early` if `late` waits for nothing
  // in between. -1: nowhere.
  int64_t common_position(int early, int late) {
    const Group& e = group(early);
    const Group& l = group(late);
    const bool early_can_wait = std::all_of(e.before.begin(), e.before.end(), [&](int g) {
      return g == late || group(g).position > l.position;
    });
    if (early_can_wait) return l.position;
    const bool late_can_hurry = std::all_of(l.after.begin(), l.after.end(), [&](int g) {
      return g == early || group(g).position < e.position;
    });
    return late_can_hurry ? e.position : -1;
  }

  // Returns the group that both are in now, or -1.
  int merge(int early, int late) {
    Group& e = group(early);
    Group& l = group(late);
    if (e.members.size() + l.members.size() > static_cast<size_t>(options_.max_nodes)) return -1;
    const int64_t position = common_position(early, late);
    if (position < 0) return -1;
    std::optional<Group> joined = join(form_, facts_, e, l);
    if (!joined) return -1;
    joined->position = position;
    joined->after = e.after;
    joined->after.insert(l.after.begin(), l.after.end());
    joined->before = e.before;
    joined->before.insert(l.before.begin(), l.before.end());
    joined->after.erase(early);
    joined->before.erase(late);
    for (int g : joined->after) {
      group(g).before.erase(late);
      group(g).before.insert(early);
    }
    for (int g : joined->before) {
      group(g).after.erase(late);
      group(g).after.insert(early);
    }
    for (const Member& m : l.members) group_of_[static_cast<size_t>(m.node)] = early;
    groups_[static_cast<size_t>(late)].reset();
    groups_[static_cast<size_t>(early)] = std::move(joined);
    return early;
  }

  Plan finish() {
    std::vector<const Group*> order;
    for (const std::optional<Group>& g : groups_) {
      if (g) order.push_back(&*g);
    }
    std::sort(order.begin(), order.end(),
              [](const Group* a, const Group* b) { return a->position < b->position; });
    Plan plan;
    for (const Group* g : order) {
      Step step;
      if (g->host) {
        step.host_node = g->members.front().node;
        plan.steps.push_back(std::move(step));
        continue;
      }
      const bool alone = g->members.size() == 1;
      step.fused = build_kernel(form_, facts_, *g, !options_.fuse);
      if (step.fused.operands.empty()) continue;  // nothing needs it
      step.nodes = step.fused.nodes;
      if (!alone) {
        for (const Member& m : g->members) {
          const Group single = single_group(form_, facts_, m.node);
          step.singles.push_back(build_kernel(form_, facts_, single, true));
        }
      }
      plan.steps.push_back(std::move(step));
    }
    return plan;
  }

  const WindowForm& form_;
  const FusionOptions options_;
  std::vector<NodeFacts> facts_;
  std::vector<std::optional<Group>> groups_;
  std::vector<int> group_of_;
  int64_t next_position_ = 0;
};

}  // namespace

Plan make_plan(const WindowForm& form, const FusionOptions& options) {
  return Fuser(form, options).run();
}

std::string to_text(const Plan& plan, const WindowForm& form) {
  std::string text;
  for (const Step& step : plan.steps) {
    if (step.host_node >= 0) {
      const OpRecord& r = *form.nodes[static_cast<size_t>(step.host_node)].record;
      text += std::string("host ") + (r.host != nullptr ? r.host->name() : "?") + "\n";
      continue;
    }
    text += "kernel " + std::string(name(step.fused.nest.schedule));
    for (int n : step.nodes) {
      text += std::string(" ") + op_info(form.nodes[static_cast<size_t>(n)].record->op).id;
    }
    text += "\n" + to_text(step.fused.graph);
  }
  return text;
}

}  // namespace neuron
