// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/batch_unwinder.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "libcore/unwind/splice.hpp"

namespace flight {
namespace {

// Of bytes that the other side may change meanwhile: the caller has checked that they are there.
template <typename T>
T batch_value(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The parts of a batch whose sizes agree.
class BatchView {
 public:
  struct Data {
    std::vector<std::uint64_t> registers, kernel;
    std::span<const std::byte> stack;
  };

  [[nodiscard]] static Result<BatchView> parse(std::span<const std::byte> bytes);
  [[nodiscard]] const BatchHeader& header() const { return header_; }
  [[nodiscard]] Machine machine() const { return machine_; }
  [[nodiscard]] BatchSample sample(std::uint32_t number) const {
    return batch_value<BatchSample>(bytes_, samples_at_ + number * sizeof(BatchSample));
  }
  // nullopt: outside of the data.
  [[nodiscard]] std::optional<Data> data_of(const BatchSample& sample) const;
  [[nodiscard]] std::vector<BatchMapping> mappings_of(std::uint32_t space) const;

 private:
  explicit BatchView(std::span<const std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] Result<void> check_header();
  [[nodiscard]] Result<void> read_spaces();

  std::span<const std::byte> bytes_;
  BatchHeader header_;
  Machine machine_ = Machine::x86_64;
  std::size_t mappings_at_ = 0, samples_at_ = 0, spaces_at_ = 0;
  std::vector<std::uint32_t> first_mapping_;  // of each space, and the end of the last one
};

Result<BatchView> BatchView::parse(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(BatchHeader))
    return fail(std::errc::bad_message, "batch of samples: it has {} bytes", bytes.size());
  BatchView out(bytes);
  out.header_ = batch_value<BatchHeader>(bytes, 0);
  if (auto checked = out.check_header(); !checked) return propagate(checked.error());
  if (auto read = out.read_spaces(); !read) return propagate(read.error());
  return out;
}

Result<void> BatchView::check_header() {
  if (header_.magic != kBatchMagic || header_.version != kBatchVersion)
    return fail(std::errc::bad_message, "batch of samples: it is not of version {}", kBatchVersion);
  const auto machine = machine_of(header_.machine);
  if (!machine) return fail(std::errc::bad_message, "batch of samples: it is of the machine {}", header_.machine);
  machine_ = *machine;
  if (header_.data_bytes > kMaxBatchBytes || header_.data_bytes % 8 != 0 || header_.mappings > kMaxBatchMappings ||
      header_.samples > kMaxBatchSamples || header_.spaces > kMaxBatchSpaces || header_.tables > kMaxBatchTables)
    return fail(std::errc::bad_message, "batch of samples: it exceeds a limit");
  mappings_at_ = sizeof(BatchHeader) + static_cast<std::size_t>(header_.data_bytes);
  samples_at_ = mappings_at_ + header_.mappings * sizeof(BatchMapping);
  spaces_at_ = samples_at_ + header_.samples * sizeof(BatchSample);
  const std::size_t end = spaces_at_ + header_.spaces * sizeof(std::uint32_t);
  if (end != bytes_.size())
    return fail(std::errc::bad_message, "batch of samples: it has {} bytes, its parts have {}", bytes_.size(), end);
  return {};
}

Result<void> BatchView::read_spaces() {
  std::uint64_t next = 0;
  for (std::uint32_t i = 0; i < header_.spaces; ++i) {
    first_mapping_.push_back(static_cast<std::uint32_t>(next));
    const auto mappings = batch_value<std::uint32_t>(bytes_, spaces_at_ + i * sizeof(std::uint32_t));
    next += mappings;
    if (mappings > kMaxCodeMappings || next > header_.mappings)
      return fail(std::errc::bad_message, "batch of samples: its spaces have more than its {} mappings",
                  header_.mappings);
  }
  first_mapping_.push_back(static_cast<std::uint32_t>(next));
  return {};
}

std::optional<BatchView::Data> BatchView::data_of(const BatchSample& sample) const {
  const std::size_t registers = static_cast<std::size_t>(std::popcount(header_.register_mask));
  const std::uint64_t all_bytes = header_.data_bytes;
  if (sample.kernel_frames > kMaxKernelFrames || sample.data_at % 8 != 0 || sample.data_at > all_bytes)
    return std::nullopt;
  const std::size_t word_bytes = 8 * (registers + sample.kernel_frames);
  if (word_bytes + std::uint64_t{sample.stack_bytes} > all_bytes - sample.data_at) return std::nullopt;
  Data out;
  std::size_t at = sizeof(BatchHeader) + static_cast<std::size_t>(sample.data_at);
  const auto take = [&](std::vector<std::uint64_t>& words, std::size_t count) {
    words.resize(count);
    if (count > 0) std::memcpy(words.data(), bytes_.data() + at, 8 * count);
    at += 8 * count;
  };
  take(out.registers, registers);
  take(out.kernel, sample.kernel_frames);
  out.stack = bytes_.subspan(at, sample.stack_bytes);
  return out;
}

std::vector<BatchMapping> BatchView::mappings_of(std::uint32_t space) const {
  std::vector<BatchMapping> out(first_mapping_[space + 1] - first_mapping_[space]);
  if (!out.empty())
    std::memcpy(out.data(), bytes_.data() + mappings_at_ + first_mapping_[space] * sizeof(BatchMapping),
                out.size() * sizeof(BatchMapping));
  return out;
}

CodeMap code_map_of(const std::vector<BatchMapping>& mappings, std::span<const UnwindTable* const> tables) {
  std::vector<CodeMapping> out;
  out.reserve(mappings.size());
  for (const BatchMapping& mapping : mappings) {
    CodeMapping code{.begin = mapping.begin, .end = mapping.end, .is_file = mapping.is_file != 0};
    const UnwindTable* table = mapping.table < tables.size() ? tables[mapping.table] : nullptr;
    // A table that has no code there is that of another file.
    if (const auto bias = table != nullptr ? table->load_bias(mapping.begin, mapping.file_offset) : std::nullopt) {
      code.table = table;
      code.load_bias = *bias;
    }
    out.push_back(code);
  }
  return CodeMap::create(std::move(out));
}

// Writes the answer from its beginning; the header comes last.
class AnswerWriter {
 public:
  AnswerWriter(std::span<std::byte> memory, std::uint32_t samples)
      : memory_(memory), header_{.samples = samples}, at_(sizeof(AnswerHeader) + samples * sizeof(AnswerSample)) {}

  // False: it does not fit, here and below.
  [[nodiscard]] bool fits() const { return at_ <= memory_.size(); }
  [[nodiscard]] bool add(std::uint32_t number, const Unwound& unwound, std::span<const std::uint64_t> pcs) {
    if (pcs.size_bytes() > memory_.size() - at_) return false;
    const AnswerSample sample{.stopped_at = unwound.stopped_at,
                              .frames = static_cast<std::uint32_t>(pcs.size()),
                              .frame_pointer_steps = unwound.frame_pointer_steps,
                              .status = static_cast<std::uint32_t>(unwound.status)};
    std::memcpy(memory_.data() + sizeof(AnswerHeader) + number * sizeof(AnswerSample), &sample, sizeof sample);
    if (!pcs.empty()) std::memcpy(memory_.data() + at_, pcs.data(), pcs.size_bytes());
    at_ += pcs.size_bytes();
    header_.frames += pcs.size();
    return true;
  }
  [[nodiscard]] std::size_t finish() {
    std::memcpy(memory_.data(), &header_, sizeof header_);
    return at_;
  }

 private:
  std::span<std::byte> memory_;
  AnswerHeader header_;
  std::size_t at_;
};

}  // namespace

Unwinder& BatchUnwinder::unwinder_for(Machine machine, std::uint64_t code_mask) {
  if (!unwinder_ || machine != machine_ || code_mask != code_mask_) unwinder_.emplace(machine, code_mask);
  machine_ = machine;
  code_mask_ = code_mask;
  return *unwinder_;
}

Result<std::size_t> BatchUnwinder::unwind(std::span<const std::byte> batch, std::span<const UnwindTable* const> tables,
                                          std::span<std::byte> answer) {
  const auto view = BatchView::parse(batch);
  if (!view) return propagate(view.error());
  const BatchHeader& header = view->header();
  if (header.tables != tables.size())
    return fail(std::errc::bad_message, "batch of samples: it has {} tables, and {} came with it", header.tables,
                tables.size());
  Unwinder& unwinder = unwinder_for(view->machine(), header.code_mask);
  const auto too_small = [&] {
    return fail(std::errc::no_space_on_device, "the answer to a batch of {} samples does not fit into {} bytes",
                header.samples, answer.size());
  };
  AnswerWriter out(answer, header.samples);
  if (!out.fits()) return too_small();
  std::vector<std::optional<CodeMap>> maps(header.spaces);
  for (std::uint32_t i = 0; i < header.samples; ++i) {
    const BatchSample sample = view->sample(i);
    const auto data = sample.space < header.spaces ? view->data_of(sample) : std::nullopt;
    if (!data) return fail(std::errc::bad_message, "batch of samples: a part of sample {} is outside of it", i);
    std::optional<CodeMap>& map = maps[sample.space];
    if (!map) map = code_map_of(view->mappings_of(sample.space), tables);
    const auto registers = registers_of_sample(view->machine(), header.register_mask, data->registers);
    std::array<std::uint64_t, kMaxUnwoundFrames> pcs{};
    const auto wanted = std::span(pcs).first(std::min<std::size_t>(sample.most_frames, pcs.size()));
    Unwound unwound{.status = UnwindStatus::no_cfi};
    if (registers && !wanted.empty()) {
      const std::uint64_t stack_pointer = registers->values[traits_of(view->machine()).stack_pointer];
      unwound = unwinder.unwind(*registers, {.base = stack_pointer, .bytes = data->stack}, *map, wanted);
      splice(unwound, wanted, data->kernel, *map);
    }
    if (!out.add(i, unwound, wanted.first(unwound.frames))) return too_small();
  }
  return out.finish();
}

}  // namespace flight
