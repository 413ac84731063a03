// SPDX-License-Identifier: Apache-2.0
#include "neuron/trace/source_table.h"

#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace neuron {
namespace {

struct Entry {
  std::string text{};    // of a plain line
  SourceId forward = 0;  // of a pair
  SourceId call = 0;     // of a pair
  bool backward = false;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<std::string, SourceId> ids;            // guarded by mutex
  std::map<std::pair<SourceId, SourceId>, SourceId> pairs;  // guarded by mutex
  std::deque<Entry> entries{Entry{}};                       // guarded by mutex; index = id
};

Table& table() {
  static auto* instance = new Table;
  return *instance;
}

}  // namespace

SourceId intern_source(const std::string& text) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto [it, inserted] = t.ids.try_emplace(text, static_cast<SourceId>(t.entries.size()));
  if (inserted) t.entries.push_back({.text = text});
  return it->second;
}

SourceId intern_backward(SourceId forward, SourceId call) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  if (forward < t.entries.size() && t.entries[forward].backward) {
    forward = t.entries[forward].forward;
  }
  if (call < t.entries.size() && t.entries[call].backward) call = t.entries[call].forward;
  auto [it, inserted] =
      t.pairs.try_emplace({forward, call}, static_cast<SourceId>(t.entries.size()));
  if (inserted) t.entries.push_back({.forward = forward, .call = call, .backward = true});
  return it->second;
}

SourceLines source_lines(SourceId id) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  if (id >= t.entries.size()) return {};
  const Entry& e = t.entries[id];
  if (!e.backward) return {.line = e.text};
  return {
      .line = t.entries[e.forward].text, .backward_call = t.entries[e.call].text, .backward = true};
}

std::string source_text(SourceId id) {
  const SourceLines lines = source_lines(id);
  if (!lines.backward) return lines.line;
  if (lines.backward_call.empty()) return lines.line + " (backward)";
  return lines.line + " (backward: " + lines.backward_call + ")";
}

}  // namespace neuron
