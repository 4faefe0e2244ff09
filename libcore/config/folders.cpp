// SPDX-License-Identifier: Apache-2.0
// The configuration in force: a profile, a main file and its drop-ins. Later ones override earlier ones:
//
//   lib/profiles/NAME.json  <  etc/flightd.json (else lib's, else the built-in)  <  conf.d/*.json of both, by name
#include <fmt/ranges.h>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "libcore/base/digest.hpp"
#include "libcore/base/nearest_word.hpp"
#include "libcore/base/text.hpp"
#include "libcore/config/check.hpp"
#include "libcore/config/default_text.hpp"
#include "libcore/config/document.hpp"
#include "libcore/config/links.hpp"
#include "libcore/config/look.hpp"
#include "libcore/config/nulls.hpp"
#include "libcore/config/parse.hpp"

namespace flight {
namespace {

constexpr std::string_view kSuffix = ".json";

tl::unexpected<ConfigError> refuse(std::string file, std::string message) {
  return tl::unexpected(ConfigError{std::move(file), 0, "", std::move(message)});
}

tl::unexpected<ConfigError> refuse(std::string file, const Error& error) {
  return tl::unexpected(ConfigError{std::move(file), 0, "", error.what, error.errno_value()});
}

// `path`, or the directory that it is in, may be a link that leads nowhere.
tl::unexpected<ConfigError> refuse_link(const LookUp& look, const std::string& path, const Error& error) {
  const int why = error.errno_value();
  if (why != ENOENT && why != ELOOP) return refuse(path, error);
  std::vector<std::string> places{path};
  if (why == ELOOP) places.push_back(std::filesystem::path(path).parent_path().string());
  for (const std::string& place : places) {
    auto text = broken_link_text(look, place);
    if (!text) return refuse(path, text.error());
    if (!text->empty()) return refuse(place, std::move(*text));
  }
  return refuse(path, error);
}

// Why a file has no text. A link to one that does not exist is an error; otherwise ENOENT: it is none.
tl::unexpected<ConfigError> refuse_text(const LookUp& look, const std::string& file, const Error& error) {
  const int why = error.errno_value();
  if (why == EISDIR) return refuse(file, "Is a directory, and a file is expected here: move it elsewhere");
  if (why == EINVAL) return refuse(file, "it is not a regular file: move it elsewhere");
  return refuse_link(look, file, error);
}

// The files NAME.json in a directory, without hidden ones; none if the directory does not exist.
ConfigResult<std::vector<std::string>> json_files(const LookUp& look, const std::string& folder) {
  const auto found = look(Look::json_files, folder);
  if (!found && found.error().errno_value() == ENOENT) {
    const auto link = broken_folder(look, folder);
    if (!link) return refuse(folder, link.error());
    if (!link->path.empty()) return refuse(link->path, link->text);
    return std::vector<std::string>();
  }
  if (!found) return refuse_link(look, folder, found.error());
  std::vector<std::string> names = split_names(*found);
  if (names.size() > kMaxDropIns) return refuse(folder, fmt::format("more than {} files *.json here", kMaxDropIns));
  std::sort(names.begin(), names.end());
  return names;
}

// The text; nullopt: the file does not exist.
ConfigResult<std::optional<std::string>> text_if_there(const LookUp& look, const std::string& file) {
  auto text = look(Look::text, file);
  if (text) return std::optional(std::move(*text));
  auto refused = refuse_text(look, file, text.error());
  if (refused.value().error_number == ENOENT) return std::nullopt;
  return refused;
}

struct Layer {
  std::string file, text;
  bool shipped = false;
};

ConfigResult<Layer> main_layer(const LookUp& look, const ConfigFolders& folders) {
  for (const std::string& folder : {folders.etc, folders.lib}) {
    const std::string file = folder + "/flightd.json";
    auto text = text_if_there(look, file);
    if (!text) return tl::unexpected(text.error());
    if (*text) return Layer{file, std::move(**text), folder == folders.lib};
  }
  return Layer{kBuiltInName, std::string(built_in_config()), true};
}

// The files of conf.d in both directories, by name; a file in /etc replaces one with the same name in /usr/lib, also
// if it is masked.
ConfigResult<std::vector<Layer>> drop_ins(const LookUp& look, const ConfigFolders& folders) {
  std::map<std::string, std::string> file_of;
  for (const std::string& folder : {folders.lib, folders.etc}) {
    const std::string drop_in_folder = folder + "/conf.d";
    const auto names = json_files(look, drop_in_folder);
    if (!names) return tl::unexpected(names.error());
    for (const std::string& name : *names) file_of[name] = fmt::format("{}/{}", drop_in_folder, name);
  }
  std::vector<Layer> layers;
  for (const auto& [name, file] : file_of) {
    const auto masked = look(Look::is_masked, file);
    if (!masked) return refuse(file, masked.error());
    if (!masked->empty()) continue;
    auto text = look(Look::text, file);
    if (!text) return refuse_text(look, file, text.error());
    layers.push_back({file, std::move(*text), file.starts_with(folders.lib + "/")});
  }
  return layers;
}

// A file's tree. Errors of each file are reported, also in values that a later file overrides.
ConfigResult<Value> parse_layer(const Layer& layer, int rank) {
  auto root = parse_document(layer.text, layer.file, rank, layer.shipped);
  if (!root) return root;
  if (auto checked = check_config(*root, /*fragment=*/true); !checked) return tl::unexpected(checked.error());
  return root;
}

// The profile named by `config`, from the first of the directories `profiles` that has it.
ConfigResult<Layer> profile_layer(const LookUp& look, const std::vector<std::string>& profiles, const Config& config,
                                  const Value& root) {
  for (const std::string& folder : profiles) {
    const std::string file = fmt::format("{}/{}.json", folder, config.profile);
    auto text = text_if_there(look, file);
    if (!text) return tl::unexpected(text.error());
    if (*text) return Layer{file, std::move(**text), true};
  }
  if (config.profile == Config{}.profile) return Layer{kBuiltInName, std::string(built_in_profile()), true};

  std::set<std::string> stems;
  for (const std::string& folder : profiles) {
    auto names = json_files(look, folder);
    if (!names) return tl::unexpected(names.error());
    for (const std::string& name : *names) {
      std::string stem = name.substr(0, name.size() - kSuffix.size());
      if (valid_config_name(stem) && stem != "default") stems.insert(std::move(stem));
    }
  }
  std::vector<std::string_view> known{"default"};
  known.insert(known.end(), stems.begin(), stems.end());
  Check check;
  const Value* named = root.member("profile");
  Reader(check, named == nullptr ? root : *named, "profile")
      .refuse(fmt::format("{}.json does not exist in {}{} (available: {})", config.profile, fmt::join(profiles, " or "),
                          nearest_text(config.profile, known, "nearest profile"), join_words(known)));
  return tl::unexpected(*check.error);
}

// A profile has the lowest rank, so a profile that it names would never apply. Its own name says what is so.
std::optional<ConfigError> foreign_profile(const Value& root, const std::string& name) {
  const Value* named = root.member("profile");
  if (named == nullptr || named->text == name) return std::nullopt;
  Check check;
  Reader(check, *named, "profile")
      .refuse(fmt::format("a profile cannot select another profile; remove this key (its value is '{}')",
                          excerpt(named->text)));
  return check.error;
}

// `profile`: of the lowest rank.
std::vector<std::string> useless_nulls(const std::vector<Value>& files, const Value& profile) {
  const auto built_in = parse_document(built_in_config(), kBuiltInName);
  std::vector<const Value*> roots, others{&profile};
  for (const Value& file : files) roots.push_back(&file);
  if (built_in) others.push_back(&*built_in);
  return null_warnings(roots, others);
}

// Merges `layers` with the profile that they name; the last one has the highest rank.
ConfigResult<Config> merge_layers(const LookUp& look, const std::vector<Layer>& layers,
                                  const std::vector<std::string>& profiles) {
  Digest digest;
  Value over{.kind = Value::Kind::object};  // the files without the profile that they name
  std::vector<Value> patches;
  for (const Layer& layer : layers) {
    auto root = parse_layer(layer, static_cast<int>(patches.size()) + 1);
    if (!root) return tl::unexpected(root.error());
    merge_patch(over, *root);
    patches.push_back(std::move(*root));
    digest.add(layer.text);
  }

  auto named = check_config(over, /*fragment=*/true);
  if (!named) return named;
  auto profile = profile_layer(look, profiles, *named, over);
  if (!profile) return tl::unexpected(profile.error());
  auto bottom = parse_layer(*profile, 0);
  if (!bottom) return tl::unexpected(bottom.error());
  if (auto error = foreign_profile(*bottom, named->profile)) return tl::unexpected(std::move(*error));
  digest.add(profile->text);

  std::vector<std::string> nulls = useless_nulls(patches, *bottom);
  Value merged{.kind = Value::Kind::object};
  merge_patch(merged, std::move(*bottom));
  for (Value& patch : patches) merge_patch(merged, std::move(patch));
  auto config = finish_config(std::move(merged));
  if (!config) return config;
  config->digest = digest.text();
  config->useless_nulls = std::move(nulls);
  return config;
}

// One file over the default profile.
ConfigResult<Config> single_config(const std::string& text, const std::string& file) {
  auto config = parse_config(text, file);
  if (!config) return config;
  std::vector<Value> files;
  if (auto root = parse_document(text, file)) files.push_back(std::move(*root));
  if (const auto profile = parse_document(built_in_profile(), kBuiltInName))
    config->useless_nulls = useless_nulls(files, *profile);
  return config;
}

}  // namespace

std::vector<std::string> unread_warnings(const Config& config) {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> out;
  for (const std::string& path : config.unread) {
    if (out.size() == kMost) {
      const std::size_t more = config.unread.size() - kMost;
      out.push_back(more == 1 ? "1 more file or directory of the configuration is not read"
                              : fmt::format("{} more files and directories of the configuration are not read", more));
      break;
    }
    out.push_back(fmt::format("{} is not read: only flightd.json and conf.d/*.json are", printable(path)));
  }
  for (const std::string& warning : config.useless_nulls) out.push_back(printable(warning));
  return out;
}

ConfigResult<Config> load_config(const ConfigFolders& folders, const LookUp& look) {
  auto main = main_layer(look, folders);
  if (!main) return tl::unexpected(main.error());
  auto layers = drop_ins(look, folders);
  if (!layers) return tl::unexpected(layers.error());
  layers->insert(layers->begin(), std::move(*main));
  auto config = merge_layers(look, *layers, {folders.lib + "/profiles"});
  if (!config) return config;
  const auto unread = look(Look::unread, folders.etc);
  if (!unread) return refuse(folders.etc, unread.error());
  config->unread = split_names(*unread);
  return config;
}

ConfigResult<Config> load_config(const std::string& file, const ConfigFolders& folders, const LookUp& look) {
  auto text = look(Look::text, file);
  if (!text) return refuse_text(look, file, text.error());
  auto config = single_config(*text, file);
  if (!config || config->profile == Config{}.profile) return config;
  const std::filesystem::path beside = std::filesystem::path(file).parent_path() / "profiles";
  return merge_layers(look, {Layer{file, std::move(*text)}}, {beside.string(), folders.lib + "/profiles"});
}

}  // namespace flight
