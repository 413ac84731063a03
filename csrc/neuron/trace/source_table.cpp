// SPDX-License-Identifier: Apache-2.0
#include "neuron/trace/source_table.h"

#include <deque>
#include <mutex>
#include <unordered_map>

namespace neuron {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<std::string, SourceId> ids;  // guarded by mutex
  std::deque<std::string> texts{""};              // guarded by mutex; index = id
};

Table& table() {
  static auto* instance = new Table;
  return *instance;
}

}  // namespace

SourceId intern_source(const std::string& text) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto [it, inserted] = t.ids.try_emplace(text, static_cast<SourceId>(t.texts.size()));
  if (inserted) t.texts.push_back(text);
  return it->second;
}

std::string source_text(SourceId id) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  return id < t.texts.size() ? t.texts[id] : std::string();
}

}  // namespace neuron
