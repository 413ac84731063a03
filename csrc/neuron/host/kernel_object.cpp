// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/kernel_object.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "neuron/base/error.h"
#include "neuron/host/kernel_runtime.h"

namespace neuron {
namespace {

constexpr size_t kStubBytes = 16;  // jmp *[rip + 2]; padding; address

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorCode::kExecution, "kernel object: " + text);
}

// Reads with bounds: objects come from disk.
class Linker {
 public:
  explicit Linker(std::string_view elf) : elf_(elf) { read_sections(); }

  size_t mapping_bytes() const { return size_; }

  void link(char* memory, KernelEntry entries[2]) {
    memory_ = memory;
    for (size_t s = 0; s < sections_.size(); ++s)
      if (offset_[s] != kAbsent && sections_[s].sh_type == SHT_PROGBITS)
        std::memcpy(memory_ + offset_[s], at(sections_[s].sh_offset, sections_[s].sh_size),
                    sections_[s].sh_size);
    for (const Elf64_Shdr& s : sections_)
      if (s.sh_type == SHT_RELA && s.sh_info < sections_.size() && offset_[s.sh_info] != kAbsent)
        relocate(s);
    for (size_t k = 1; k < symbol_count_; ++k) {
      Elf64_Sym symbol = read<Elf64_Sym>(symbols_ + k * sizeof(Elf64_Sym));
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL) continue;
      for (int phase = 0; phase < 2; ++phase)
        if (symbol_name(symbol) == kEntryNames[phase])
          entries[phase] = reinterpret_cast<KernelEntry>(address(symbol));
    }
    if (entries[0] == nullptr) fail("no entry");
  }

 private:
  static constexpr size_t kAbsent = ~size_t{0};

  const char* at(uint64_t offset, uint64_t bytes) const {
    if (offset > elf_.size() || bytes > elf_.size() - offset) fail("truncated");
    return elf_.data() + offset;
  }
  template <typename T>
  T read(uint64_t offset) const {
    T value;
    std::memcpy(&value, at(offset, sizeof(T)), sizeof(T));
    return value;
  }

  void read_sections() {
    auto header = read<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_REL ||
        header.e_machine != EM_X86_64 || header.e_shentsize != sizeof(Elf64_Shdr))
      fail("not a relocatable x86-64 object");
    uint64_t symbol_bytes = 0;
    for (uint64_t s = 0; s < header.e_shnum; ++s) {
      sections_.push_back(read<Elf64_Shdr>(header.e_shoff + s * sizeof(Elf64_Shdr)));
      const Elf64_Shdr& section = sections_.back();
      if (section.sh_type == SHT_SYMTAB) {
        symbols_ = section.sh_offset;
        symbol_bytes = section.sh_size;
        names_section_ = section.sh_link;
      }
    }
    at(symbols_, symbol_bytes);
    symbol_count_ = symbol_bytes / sizeof(Elf64_Sym);
    if (names_section_ >= sections_.size()) fail("no symbol names");
    offset_.assign(sections_.size(), kAbsent);
    for (size_t s = 0; s < sections_.size(); ++s) {
      const Elf64_Shdr& section = sections_[s];
      if ((section.sh_flags & SHF_ALLOC) == 0) continue;
      if (section.sh_flags & SHF_WRITE && section.sh_size > 0) fail("writable section");
      if (section.sh_type == SHT_PROGBITS) at(section.sh_offset, section.sh_size);
      uint64_t align = section.sh_addralign == 0 ? 1 : section.sh_addralign;
      if (align > 4096 || (align & (align - 1)) != 0) fail("bad alignment");
      size_ = (size_ + align - 1) & ~(align - 1);
      offset_[s] = size_;
      size_ += section.sh_size;
    }
    // Stubs for external calls, at most one per symbol.
    size_ = (size_ + kStubBytes - 1) & ~(kStubBytes - 1);
    stub_next_ = size_;
    for (uint64_t k = 1; k < symbol_count_; ++k)
      if (read<Elf64_Sym>(symbols_ + k * sizeof(Elf64_Sym)).st_shndx == SHN_UNDEF)
        size_ += kStubBytes;
    if (size_ == 0 || size_ > (size_t{1} << 30)) fail("bad size");
  }

  std::string_view symbol_name(const Elf64_Sym& symbol) const {
    const Elf64_Shdr& names = sections_[names_section_];
    if (symbol.st_name >= names.sh_size) fail("bad symbol name");
    const char* text = at(names.sh_offset, names.sh_size) + symbol.st_name;
    size_t left = names.sh_size - symbol.st_name;
    return std::string_view(text, strnlen(text, left));
  }

  char* address(const Elf64_Sym& symbol) {
    if (symbol.st_shndx == SHN_UNDEF) return stub(symbol_name(symbol));
    if (symbol.st_shndx >= sections_.size() || offset_[symbol.st_shndx] == kAbsent)
      fail("symbol without a section");
    if (symbol.st_value > sections_[symbol.st_shndx].sh_size) fail("symbol outside its section");
    return memory_ + offset_[symbol.st_shndx] + symbol.st_value;
  }

  // Functions outside may be further than a 32-bit displacement.
  char* stub(std::string_view name) {
    auto [place, inserted] = stubs_.emplace(std::string(name), nullptr);
    if (!inserted) return place->second;
    void* target = kernel_runtime_symbol(name);
    if (target == nullptr) fail("unknown function " + std::string(name));
    char* code = memory_ + stub_next_;
    stub_next_ += kStubBytes;
    const unsigned char jump[8] = {0xff, 0x25, 0x02, 0x00, 0x00, 0x00, 0xcc, 0xcc};
    std::memcpy(code, jump, sizeof jump);
    std::memcpy(code + sizeof jump, &target, sizeof target);
    return place->second = code;
  }

  void relocate(const Elf64_Shdr& table) {
    const Elf64_Shdr& target = sections_[table.sh_info];
    for (uint64_t r = 0; r + sizeof(Elf64_Rela) <= table.sh_size; r += sizeof(Elf64_Rela)) {
      auto rela = read<Elf64_Rela>(table.sh_offset + r);
      uint64_t index = ELF64_R_SYM(rela.r_info);
      if (index >= symbol_count_) fail("bad relocation symbol");
      auto symbol = read<Elf64_Sym>(symbols_ + index * sizeof(Elf64_Sym));
      uint64_t type = ELF64_R_TYPE(rela.r_info);
      uint64_t bytes = type == R_X86_64_64 ? 8 : 4;
      if (rela.r_offset > target.sh_size || bytes > target.sh_size - rela.r_offset)
        fail("relocation outside its section");
      char* place = memory_ + offset_[table.sh_info] + rela.r_offset;
      int64_t value = reinterpret_cast<int64_t>(address(symbol)) + rela.r_addend;
      if (type == R_X86_64_64) {
        std::memcpy(place, &value, 8);
      } else if (type == R_X86_64_PC32 || type == R_X86_64_PLT32) {
        int64_t distance = value - reinterpret_cast<int64_t>(place);
        int32_t narrow = static_cast<int32_t>(distance);
        if (narrow != distance) fail("relocation out of range");
        std::memcpy(place, &narrow, 4);
      } else {
        fail("relocation type " + std::to_string(type));
      }
    }
  }

  std::string_view elf_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<size_t> offset_;  // in the mapping
  uint64_t symbols_ = 0, symbol_count_ = 0, names_section_ = 0;
  size_t size_ = 0;
  size_t stub_next_ = 0;
  char* memory_ = nullptr;
  std::map<std::string, char*> stubs_;
};

}  // namespace

KernelObject::KernelObject(std::string_view elf) {
  Linker linker(elf);
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_ = (linker.mapping_bytes() + page - 1) & ~(page - 1);
  void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for code");
  try {
    linker.link(static_cast<char*>(memory), entries_);
    if (mprotect(memory, size_, PROT_READ | PROT_EXEC) != 0) fail("memory cannot be executable");
  } catch (...) {
    munmap(memory, size_);
    throw;
  }
  memory_ = memory;
}

KernelObject::~KernelObject() { munmap(memory_, size_); }

}  // namespace neuron
