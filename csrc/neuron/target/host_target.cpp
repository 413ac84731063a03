// SPDX-License-Identifier: Apache-2.0
#include "neuron/target/host_target.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <string_view>

#include "neuron/base/config.h"
#include "neuron/base/error.h"
#include "neuron/target/memory_limit.h"

namespace neuron {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr double kShareOfMemory = 0.8;

std::atomic<void (*)()> thread_preparation{nullptr};

[[noreturn]] void invalid(const std::string& setting, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, setting + " is not valid: " + why);
}

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// "0,2-3" -> 0, 2, 3
std::vector<int> parse_cores(const std::string& list) {
  const std::string setting = "NEURON_RT_VISIBLE_CORES=" + list;
  const auto number = [&](std::string_view text) {
    int value = -1;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (text.empty() || text[0] == '-' || error != std::errc() || end != last) {
      invalid(setting, "expected numbers and ranges such as 0,2-3, found \"" + std::string(text) +
                           "\"");
    }
    if (value >= HostTarget::kMaxCores) {
      invalid(setting, "core " + std::to_string(value) + " is above the last possible one, " +
                           std::to_string(HostTarget::kMaxCores - 1));
    }
    return value;
  };
  std::vector<int> cores;
  for (std::string_view rest = list;;) {
    const size_t comma = rest.find(',');
    const std::string_view item = trim(rest.substr(0, comma));
    const size_t dash = item.find('-', 1);
    const int first = number(trim(item.substr(0, dash)));
    const int last =
        dash == std::string_view::npos ? first : number(trim(item.substr(dash + 1)));
    if (last < first) invalid(setting, "the range " + std::string(item) + " is descending");
    for (int core = first; core <= last; ++core) {
      if (std::find(cores.begin(), cores.end(), core) != cores.end()) {
        invalid(setting, "core " + std::to_string(core) + " appears twice");
      }
      cores.push_back(core);
    }
    if (comma == std::string_view::npos) return cores;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

HostTarget::Options HostTarget::Options::from_config() {
  const Config& c = config();
  return {c.num_cores, c.visible_cores, c.virtual_hbm_gb, neuron::memory_limit()};
}

HostTarget::HostTarget(const Options& options) {
  if (options.num_cores < 1 || options.num_cores > kMaxCores) {
    invalid("NEURON_RT_NUM_CORES=" + std::to_string(options.num_cores),
            "expected 1 to " + std::to_string(kMaxCores));
  }
  // Not `<= 0`: the comparison is false for a value that is not a number.
  if (!(options.virtual_hbm_gb > 0)) {
    invalid("TORCH_NEURONX_VIRTUAL_HBM_GB=" + std::to_string(options.virtual_hbm_gb),
            "expected a number above 0");
  }
  if (trim(options.visible_cores).empty()) {
    for (int core = 0; core < options.num_cores; ++core) cores_.push_back(core);
  } else {
    cores_ = parse_cores(options.visible_cores);
  }
  const int64_t all_cores = std::max<int64_t>(
      options.num_cores, *std::max_element(cores_.begin(), cores_.end()) + 1);
  const double share = static_cast<double>(options.memory_limit) * kShareOfMemory /
                       static_cast<double>(all_cores);
  const double capacity = std::min(options.virtual_hbm_gb * (int64_t{1} << 30), share);
  capacity_ = static_cast<int64_t>(capacity) / static_cast<int64_t>(kPage) *
              static_cast<int64_t>(kPage);
}

void HostTarget::check_device(int device) const {
  if (device < 0 || device >= device_count()) {
    throw Error(ErrorCode::kInvalidArgument, "no device " + std::to_string(device) + " among " +
                                                 std::to_string(device_count()));
  }
}

DeviceProperties HostTarget::properties(int device) const {
  check_device(device);
  return {"Virtual NeuronCore (host CPU)", true, capacity_};
}

int HostTarget::core(int device) const {
  check_device(device);
  return cores_[static_cast<size_t>(device)];
}

void* HostTarget::allocate_segment(int device, size_t bytes) {
  check_device(device);
  if (bytes == 0 || bytes % kPage != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "a segment has a positive number of whole pages, not " + std::to_string(bytes) +
                    " bytes");
  }
  const auto map = [](size_t size) -> std::byte* {
    void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                           0);
    return address != MAP_FAILED ? static_cast<std::byte*>(address) : nullptr;
  };
  if (bytes < kHugePage) return map(bytes);

  const size_t spare = kHugePage - kPage;
  if (bytes > SIZE_MAX - spare) return nullptr;
  std::byte* mapped = map(bytes + spare);
  if (mapped == nullptr) return nullptr;
  const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(mapped) % kHugePage) % kHugePage;
  std::byte* address = mapped + head;
  if (head > 0) ::munmap(mapped, head);
  if (spare > head) ::munmap(address + bytes, spare - head);
  // A hint: a kernel without huge pages keeps small ones.
  ::madvise(address, bytes, MADV_HUGEPAGE);
  return address;
}

void HostTarget::free_segment(int device, void* address, size_t bytes) {
  check_device(device);
  ::munmap(address, bytes);
}

void HostTarget::prepare_thread() {
  if (void (*prepare)() = thread_preparation.load(std::memory_order_acquire)) prepare();
}

void HostTarget::set_thread_preparation(void (*prepare)()) {
  thread_preparation.store(prepare, std::memory_order_release);
}

}  // namespace neuron
