// SPDX-License-Identifier: Apache-2.0
#include "neuron/target/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string_view>

#include "neuron/base/error.h"

namespace neuron {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

int64_t mem_total(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string key;
  while (file >> key) {
    int64_t kib = 0;
    if (key == "MemTotal:" && file >> kib && kib > 0) return kib * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return kUnlimited;
}

// A number; "max" (version 2) or no such file means that this group has no limit of its own.
// Version 1 writes a number beyond any machine for "none".
int64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text)) return kUnlimited;
  int64_t limit = kUnlimited;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  return error == std::errc() && end == text.data() + text.size() ? limit : kUnlimited;
}

// The limit of `group` below `mount` and of its parents. Inside a container the path may be the
// host's, which does not exist here; the root of the mount is then the container's own group.
int64_t limit_of_group(const std::string& mount, std::string group,
                       std::initializer_list<const char*> files) {
  int64_t limit = kUnlimited;
  for (;;) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    for (const char* file : files) limit = std::min(limit, limit_in(mount + group + "/" + file));
    if (group.empty()) return limit;
    const size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

bool lists(std::string_view controllers, std::string_view name) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == name) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

int64_t memory_limit(const std::string& root) {
  int64_t limit = mem_total(root);
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;  // "hierarchy:controllers:/path"
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        limit = std::min(limit, limit_of_group(root + mount, path, {"memory.max", "memory.high"}));
      }
    } else if (lists(controllers, "memory")) {
      limit = std::min(limit, limit_of_group(root + "/sys/fs/cgroup/memory", path,
                                             {"memory.limit_in_bytes"}));
    }
  }
  if (limit == kUnlimited) {
    throw Error(ErrorCode::kInternal, "the system does not tell how much memory it has");
  }
  return limit;
}

}  // namespace neuron
