// SPDX-License-Identifier: Apache-2.0
// The config's text, and its fragments laid over one another as conf.d does it: refused with a place and a reason, or
// taken.
#include <cassert>

#include "libcore/config/document.hpp"
#include "libcore/config/parse.hpp"
#include "tests/fuzz/input.hpp"

namespace {

void check(const flight::ConfigError& error) {
  assert(!error.message.empty());
  // It ends up in a terminal and in the journal.
  for (const char letter : error.text()) assert(letter == '\n' || static_cast<unsigned char>(letter) >= 0x20);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  flight::fuzz::Input input(data, size);
  const std::string_view text = input.take_text();
  const auto config = flight::parse_config(text, "fuzz.json");
  if (!config) check(config.error());
  auto base = flight::parse_document(text, "fuzz.json", 0);
  auto patch = flight::parse_document(input.text(), "patch.json", 1);
  if (!patch) check(patch.error());
  if (base && patch) flight::merge_patch(*base, std::move(*patch));
  return 0;
}
