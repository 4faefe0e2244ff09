// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/names.hpp"

#include <fmt/ranges.h>

#include <chrono>
#include <string_view>
#include <utility>

#include "libcore/base/units.hpp"

namespace flight::daemon {
namespace {

// The broker answers from memory, but may wait a moment for files that it is reading.
constexpr std::chrono::milliseconds kBuildIdsWait{300};
// By then it has read /proc/modules, and kallsyms if modules were loaded or unloaded.
constexpr std::chrono::milliseconds kKernelWait{1000};

}  // namespace

std::shared_ptr<const KernelSymbols> take_kernel(RecorderThread& recorder, std::future<Result<void>> answer,
                                                 std::vector<std::string>& warnings) {
  Result<void> asked = fail(std::errc::timed_out, "flightd-broker did not answer within {} ms", kKernelWait.count());
  if (answer.wait_for(kKernelWait) == std::future_status::ready) asked = answer.get();
  auto kernel = recorder.kernel();
  if (!kernel->names.warning.empty()) warnings.push_back(kernel->names.warning);
  if (asked) return kernel;
  const EventTime looked_ns = kernel->names.looked_ns;
  warnings.push_back(
      looked_ns == 0 ? fmt::format("addresses of the kernel have no names: {}", asked.error().what)
                     : fmt::format("if kernel modules were loaded or unloaded after {}, their addresses may have no "
                                   "names or wrong ones: {}",
                                   recorder.clock().text_at(looked_ns), asked.error().what));
  return kernel;
}

Result<KnownFiles> ask_for_files(RecorderThread& recorder) { return recorder.build_ids(kBuildIdsWait); }

void name_files(RecorderThread& recorder, TrackerExport& window) {
  name_files(recorder, ask_for_files(recorder), window);
}

void name_files(RecorderThread& recorder, const Result<KnownFiles>& known, TrackerExport& window,
                const EachMapping& each) {
  const KnownFiles none;
  const NamedFiles named = add_build_ids(known ? *known : none, window, each);
  const FileMessages messages = messages_of(recorder, known, named);
  window.warnings.insert(window.warnings.end(), messages.warnings.begin(), messages.warnings.end());
  window.notes.insert(window.notes.end(), messages.notes.begin(), messages.notes.end());
}

FileMessages messages_of(RecorderThread& recorder, const Result<KnownFiles>& known, const NamedFiles& named) {
  FileMessages out;
  if (std::string scan = recorder.scan_warning(); !scan.empty()) out.warnings.push_back(std::move(scan));
  const auto without = [&](std::uint64_t files, std::string_view why) {
    return fmt::format("{} of {} mapped files have no build-id here: {}", files, named.with + named.without, why);
  };
  if (!known && named.without > 0) out.warnings.push_back(without(named.without, known.error().what));
  if (!known) return out;
  if (named.unanswered > 0) out.warnings.push_back(without(named.unanswered, "their disk has not answered yet"));
  if (named.served > 0)
    out.notes.push_back(fmt::format("build-id unread: on {} ({} of {} mapped files)",
                                    fmt::join(named.served_types, ", "), named.served, named.with + named.without));
  if (named.waiting > 0)
    out.notes.push_back(
        fmt::format("build-id unread, later: not read yet with flightd-broker's share of a CPU ({} of {} mapped files)",
                    named.waiting, named.with + named.without));
  if (named.changed > 0)
    out.notes.push_back(
        without(named.changed, "they were written after they had been mapped, before they could be read"));
  if (named.replaced > 0)
    out.notes.push_back(without(named.replaced, "they contain none, and their path leads to another file or to none"));
  if (named.touched > 0)
    out.notes.push_back(without(named.touched,
                                "they contain none, and were changed after they had been mapped: overwritten with the "
                                "same size and time, renamed, linked, or given other rights"));
  if (named.two > 0)
    out.notes.push_back(without(named.two, "another file has the same device and inode numbers (btrfs subvolumes)"));
  if (named.forgotten > 0)
    out.notes.push_back(without(
        named.forgotten, fmt::format("flightd-broker knows the {} files that were mapped last", kMaxKnownFiles)));
  if (named.left_out > 0)
    out.notes.push_back(without(
        named.left_out,
        "more files were mapped than flightd-broker can note with its share of a CPU, or they were gone before"));
  if (named.too_late > 0)
    out.notes.push_back(without(named.too_late,
                                "it was read after their records had been written, and their path may stand for "
                                "another file or content, too"));
  const std::uint64_t gone = named.without - named.unanswered - named.served - named.waiting - named.changed -
                             named.replaced - named.touched - named.two - named.forgotten - named.left_out -
                             named.too_late;
  if (gone == 0) return out;
  std::string why =
      "they were deleted or unmapped before they could be read, "
      "or their path leads over a file system that waits for a server";
  if (known->missed_bytes > 0) why += ", or too many files were mapped at once";
  if (known->hung_processes > 0)
    why += fmt::format(", or the mappings of {} cannot be read: reading them hangs",
                       counted(known->hung_processes, "process"));
  auto& messages = known->hung_processes > 0 ? out.warnings : out.notes;
  messages.push_back(without(gone, why));
  return out;
}

}  // namespace flight::daemon
