// SPDX-License-Identifier: Apache-2.0
// The configuration in force: a profile, a main file and its drop-ins, laid over each other.
//
//   lib/profiles/NAME.json  <  etc/flightd.json (else lib's, else the built-in)  <  conf.d/*.json of both, by name
#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "libcore/base/files.hpp"
#include "libcore/config/check.hpp"
#include "libcore/config/default_text.hpp"
#include "libcore/config/digest.hpp"
#include "libcore/config/document.hpp"
#include "libcore/config/parse.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxDropIns = 256;
constexpr std::string_view kSuffix = ".json";

tl::unexpected<ConfigError> refuse(std::string file, std::string message) {
  return tl::unexpected(ConfigError{std::move(file), 0, "", std::move(message)});
}

// Names NAME.json in a folder, without hidden ones; a folder that is not there has none.
ConfigResult<std::vector<std::string>> json_files(const std::string& folder) {
  const auto close = [](DIR* dir) { ::closedir(dir); };
  const std::unique_ptr<DIR, decltype(close)> dir(::opendir(folder.c_str()), close);
  std::vector<std::string> names;
  if (!dir && errno == ENOENT) return names;
  if (!dir) return refuse(folder, sys_error(errno, "the folder cannot be read").value().what);
  for (errno = 0; const dirent* entry = ::readdir(dir.get()); errno = 0) {
    const std::string_view name = entry->d_name;
    if (name[0] == '.' || name.size() <= kSuffix.size() || !name.ends_with(kSuffix)) continue;
    if (names.size() >= kMaxDropIns) return refuse(folder, fmt::format("more than {} files *.json here", kMaxDropIns));
    names.emplace_back(name);
  }
  if (errno != 0) return refuse(folder, sys_error(errno, "the folder cannot be read").value().what);
  std::sort(names.begin(), names.end());
  return names;
}

// The text; nullopt: there is no such file.
ConfigResult<std::optional<std::string>> text_if_there(const std::string& file) {
  auto text = read_regular_file(file, kMaxConfigBytes);
  if (text) return std::optional(std::move(*text));
  if (text.error().errno_value() == ENOENT) return std::nullopt;
  return refuse(file, text.error().what);
}

struct Layer {
  std::string file, text;
  bool shipped = false;
};

ConfigResult<Layer> main_layer(const ConfigFolders& folders) {
  for (const std::string& folder : {folders.etc, folders.lib}) {
    const std::string file = folder + "/flightd.json";
    auto text = text_if_there(file);
    if (!text) return tl::unexpected(text.error());
    if (*text) return Layer{file, std::move(**text), folder == folders.lib};
  }
  return Layer{kBuiltInName, std::string(built_in_config()), true};
}

// A link to /dev/null, as systemd's drop-ins are masked.
bool is_masked(const std::string& file) {
  std::error_code error;
  return std::filesystem::is_symlink(file, error) && std::filesystem::canonical(file, error) == "/dev/null";
}

// conf.d of both folders, by name; a name in /etc hides the same one in /usr/lib, also one that is masked.
ConfigResult<std::vector<Layer>> drop_ins(const ConfigFolders& folders) {
  std::map<std::string, std::string> file_of;
  for (const std::string& folder : {folders.lib, folders.etc}) {
    const std::string drop_in_folder = folder + "/conf.d";
    const auto names = json_files(drop_in_folder);
    if (!names) return tl::unexpected(names.error());
    for (const std::string& name : *names) file_of[name] = fmt::format("{}/{}", drop_in_folder, name);
  }
  std::vector<Layer> layers;
  for (const auto& [name, file] : file_of) {
    if (is_masked(file)) continue;
    auto text = read_regular_file(file, kMaxConfigBytes);
    if (!text) return refuse(file, text.error().what);
    layers.push_back({file, std::move(*text), file.starts_with(folders.lib + "/")});
  }
  return layers;
}

// A file's tree, with its own errors told as its own, also where a later file covers them.
ConfigResult<Value> parse_layer(const Layer& layer, int rank) {
  auto root = parse_document(layer.text, layer.file, rank, layer.shipped);
  if (!root) return root;
  if (auto checked = check_config(*root, /*fragment=*/true); !checked) return tl::unexpected(checked.error());
  return root;
}

ConfigResult<Layer> profile_layer(const ConfigFolders& folders, const Config& config, const Value& root) {
  const std::string profiles = folders.lib + "/profiles";
  const std::string file = fmt::format("{}/{}.json", profiles, config.profile);
  auto text = text_if_there(file);
  if (!text) return tl::unexpected(text.error());
  if (*text) return Layer{file, std::move(**text), true};
  if (config.profile == Config{}.profile) return Layer{kBuiltInName, std::string(built_in_profile()), true};

  auto names = json_files(profiles);
  if (!names) return tl::unexpected(names.error());
  std::vector<std::string_view> known{"default"};
  for (const std::string& name : *names) {
    const std::string_view stem = std::string_view(name).substr(0, name.size() - kSuffix.size());
    if (valid_config_name(stem) && stem != known.front()) known.push_back(stem);
  }
  Check check;
  const Value* named = root.member("profile");
  Reader(check, named == nullptr ? root : *named, "profile")
      .refuse(fmt::format("there is no {}; the nearest profile is '{}' (there: {})", file,
                          nearest_word(config.profile, known), join_words(known)));
  return tl::unexpected(*check.error);
}

// A profile lies below all files, so what it says about the profile would never hold.
std::optional<ConfigError> foreign_profile(const Value& root, const std::string& name) {
  const Value* named = root.member("profile");
  if (named == nullptr || named->text == name) return std::nullopt;
  Check check;
  Reader(check, *named, "profile")
      .refuse(fmt::format("a profile names no other profile; take this key away (it is '{}')", name));
  return check.error;
}

}  // namespace

ConfigResult<Config> load_config(const ConfigFolders& folders) {
  auto main = main_layer(folders);
  if (!main) return tl::unexpected(main.error());
  auto layers = drop_ins(folders);
  if (!layers) return tl::unexpected(layers.error());
  layers->insert(layers->begin(), std::move(*main));

  Digest digest;
  Value over{.kind = Value::Kind::object};  // the files without a profile, which they name
  std::vector<Value> patches;
  for (const Layer& layer : *layers) {
    auto root = parse_layer(layer, static_cast<int>(patches.size()) + 1);
    if (!root) return tl::unexpected(root.error());
    merge_patch(over, *root);
    patches.push_back(std::move(*root));
    digest.add(layer.text);
  }

  auto named = check_config(over, /*fragment=*/true);
  if (!named) return named;
  auto profile = profile_layer(folders, *named, over);
  if (!profile) return tl::unexpected(profile.error());
  auto bottom = parse_layer(*profile, 0);
  if (!bottom) return tl::unexpected(bottom.error());
  if (auto error = foreign_profile(*bottom, named->profile)) return tl::unexpected(std::move(*error));
  digest.add(profile->text);

  Value merged{.kind = Value::Kind::object};
  merge_patch(merged, std::move(*bottom));
  for (Value& patch : patches) merge_patch(merged, std::move(patch));
  auto config = finish_config(std::move(merged));
  if (!config) return config;
  config->digest = digest.text();
  return config;
}

}  // namespace flight
