// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/parse.hpp"

#include <algorithm>

#include "libcore/base/digest.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/text.hpp"
#include "libcore/config/check.hpp"
#include "libcore/config/default_text.hpp"
#include "libcore/config/document.hpp"
#include "libcore/config/reader.hpp"

namespace flight {

std::string ConfigError::text() const {
  if (unread) return printable(message);
  std::string out = file;
  if (line > 0) out += fmt::format(":{}", line);
  if (!path.empty()) out += fmt::format(": {}", path);
  return printable(out.empty() ? message : fmt::format("{}: {}", out, message));
}

namespace {

// A trigger or channel that is null was checked and is omitted from the list of values.
void drop_null_names(Value& root) {
  for (Value& section : root.items)
    if (section.is_object())
      std::erase_if(section.items, [](const Value& item) { return item.kind == Value::Kind::null; });
}

}  // namespace

ConfigResult<Config> finish_config(Value root) {
  if (root.member("channels") == nullptr) {
    auto built_in = parse_document(built_in_profile(), kBuiltInName);
    if (!built_in) return tl::unexpected(built_in.error());
    for (Value& item : built_in->items)
      if (item.key == "channels") root.items.push_back(std::move(item));
  }
  auto config = check_config(root, /*fragment=*/false);
  if (!config) return config;
  const auto built_in = parse_document(built_in_config(), kBuiltInName, 0, /*shipped=*/true);
  if (!built_in) return tl::unexpected(built_in.error());
  auto defaults = check_config(*built_in, /*fragment=*/false);
  if (!defaults) return defaults;
  // A trigger that equals a shipped one counts as shipped, in whatever file it is: an administrator may have copied
  // the shipped file to change another key.
  for (TriggerConfig& trigger : config->triggers)
    trigger.shipped |= std::any_of(defaults->triggers.begin(), defaults->triggers.end(),
                                   [&](const TriggerConfig& shipped) { return same_trigger(shipped, trigger); });
  drop_null_names(root);
  config->values = list_values(root, *config);
  return config;
}

ConfigResult<Config> parse_config(std::string_view text, const std::string& file) {
  const auto root = parse_document(text, file);
  if (!root) return tl::unexpected(root.error());
  auto config = finish_config(*root);
  if (!config) return config;
  Digest digest;
  digest.add(text);
  config->digest = digest.text();
  return config;
}

}  // namespace flight
