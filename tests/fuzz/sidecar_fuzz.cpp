// SPDX-License-Identifier: Apache-2.0
// What lies in the store: a sidecar's text, and file names. A sidecar that can be read can be written, and read again.
#include <cassert>

#include "libcore/store/names.hpp"
#include "libcore/store/sidecar.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = flight::fuzz::Input(data, size).text();
  if (const auto sidecar = flight::parse_sidecar(text)) {
    const std::string written = flight::to_json(*sidecar);
    const auto again = flight::parse_sidecar(written);
    assert(again.has_value());
    assert(flight::to_json(*again) == written);
    assert(flight::to_json_line(*again).find('\n') == std::string::npos);
    const auto summary = flight::summarize_sidecar(text);
    assert(summary.has_value());
    assert(summary->boot_id == sidecar->boot_id && summary->reason == sidecar->reason);
    assert(summary->size_bytes == sidecar->size_bytes && summary->samples == sidecar->samples);
    assert(summary->seconds == sidecar->window.seconds);
    assert(summary->record.has_value() == sidecar->record.has_value());
    assert(!summary->record || summary->record->first == sidecar->record->first);
    assert(!summary->record || summary->record->part == sidecar->record->part);
    assert(!summary->record || summary->record->ended == sidecar->record->ended);
  }
  static_cast<void>(flight::summarize_sidecar(text));
  if (const auto name = flight::parse_snapshot_name(text)) {
    assert(name->data_file() == text || name->sidecar_file() == text);
    assert(text.find('/') == std::string_view::npos);
  }
  static_cast<void>(flight::is_kallsyms_file(text));
  return 0;
}
