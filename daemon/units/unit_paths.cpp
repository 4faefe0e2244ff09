// SPDX-License-Identifier: Apache-2.0
#include "daemon/units/unit_paths.hpp"

#include <strings.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>

#include "libcore/base/directory.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/result.hpp"

namespace flight::daemon {
namespace {

// systemd.unit(5), the most important first.
constexpr std::array<const char*, 5> kFolders{"/etc/systemd/system", "/run/systemd/system",
                                              "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
                                              "/lib/systemd/system"};

// If several settings apply to one path, the one that is listed later here wins, as in the order of systemd's mounts
// (MountMode in src/core/namespace.c). Below an inaccessible path no other setting has an effect.
enum Strength : std::uint8_t { kTmpfs, kReadWrite, kReadOnly, kPrivateTmpfs, kBind, kInaccessible };

// The effect of each setting on its paths. `below`: the folder of the directories that the setting gives by name.
struct Known {
  std::string_view name, below;
  Strength strength = kReadWrite;
  std::optional<bool> writable, seen;
};
constexpr std::array<Known, 10> kKnown{{{"TemporaryFileSystem", "", kTmpfs, true, false},
                                        {"ReadWritePaths", "", kReadWrite, true, {}},
                                        {"StateDirectory", "/var/lib", kReadWrite, true, {}},
                                        {"CacheDirectory", "/var/cache", kReadWrite, true, {}},
                                        {"LogsDirectory", "/var/log", kReadWrite, true, {}},
                                        {"RuntimeDirectory", "/run", kReadWrite, true, {}},
                                        {"ReadOnlyPaths", "", kReadOnly, false, {}},
                                        {"BindPaths", "", kBind, true, true},
                                        {"BindReadOnlyPaths", "", kBind, false, true},
                                        {"InaccessiblePaths", "", kInaccessible, false, false}}};
// Their names until systemd 231, which it still reads.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kFormer{
    {{"ReadWriteDirectories", "ReadWritePaths"},
     {"ReadOnlyDirectories", "ReadOnlyPaths"},
     {"InaccessibleDirectories", "InaccessiblePaths"}}};
// Those with one value.
constexpr std::string_view kProtectSystem = "ProtectSystem", kProtectHome = "ProtectHome", kPrivateTmp = "PrivateTmp",
                           kUser = "User";

bool is_single(std::string_view name) {
  return name == kProtectSystem || name == kProtectHome || name == kPrivateTmp || name == kUser;
}

bool is_known(std::string_view name) {
  return is_single(name) ||
         std::any_of(kKnown.begin(), kKnown.end(), [&](const Known& known) { return known.name == name; });
}

bool is_one_of(std::string_view value, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* word) {
    return value.size() == std::strlen(word) && ::strncasecmp(value.data(), word, value.size()) == 0;
  });
}

bool is_true(std::string_view value) { return is_one_of(value, {"yes", "true", "1", "on", "y", "t"}); }

// systemd ignores any other value, and the one before counts.
bool is_valid(std::string_view name, std::string_view value) {
  if (is_true(value) || is_one_of(value, {"no", "false", "0", "off", "n", "f", ""})) return true;
  if (name == kProtectSystem) return value == "full" || value == "strict";
  if (name == kProtectHome) return value == "read-only" || value == "tmpfs";
  return name != kPrivateTmp || value == "disconnected";
}

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// Splits at blanks that are not between quotes.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  char quote = 0;
  bool inside = false;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t';
    if (quote == 0 && blank) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (quote == 0 && (c == '"' || c == '\''))
      quote = c;
    else if (c == quote)
      quote = 0;
    else
      words.back() += c;
  }
  return words;
}

// "-+/src:/dst:rbind" -> "/dst"; a directory's name may have a link's after a colon, and a file system its options.
std::string path_in(const Known& setting, std::string word) {
  word.erase(0, word.find_first_not_of("-+"));
  const std::size_t colon = word.find(':');
  if (colon == std::string::npos) return setting.below.empty() ? word : fmt::format("{}/{}", setting.below, word);
  const bool bind = setting.name == "BindPaths" || setting.name == "BindReadOnlyPaths";
  if (!bind) return path_in(setting, word.substr(0, colon));
  const std::size_t end = word.find(':', colon + 1);
  return word.substr(colon + 1, end == std::string::npos ? end : end - colon - 1);
}

// "-/src:/dst:rbind" -> "/src"
std::string source_in(std::string word) {
  word.erase(0, word.find_first_not_of("-+"));
  return word.substr(0, word.find(':'));
}

std::string resolved(const std::string& path) {
  std::error_code error;
  auto real = std::filesystem::weakly_canonical(path, error).string();
  if (error) real = std::filesystem::path(path).lexically_normal().string();
  while (real.size() > 1 && real.back() == '/') real.pop_back();
  return real;
}

bool contains(const std::string& folder, const std::string& path) {
  return folder == "/" || path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

// A link to /dev/null masks a unit or a drop-in.
bool is_masked(const std::string& file) {
  std::error_code error;
  return std::filesystem::read_symlink(file, error) == "/dev/null" && !error;
}

}  // namespace

void UnitPaths::set(std::string_view name, std::string_view value) {
  if (is_single(name) && name != kUser && !is_valid(name, value)) return;
  auto at = std::find_if(settings_.begin(), settings_.end(), [&](const Setting& one) { return one.name == name; });
  if (at == settings_.end()) at = settings_.insert(at, {.name = std::string(name), .words = {}});
  std::vector<std::string> words = split(value);
  if (words.empty() || is_single(name)) at->words.clear();
  at->words.insert(at->words.end(), std::make_move_iterator(words.begin()), std::make_move_iterator(words.end()));
}

const std::vector<std::string>& UnitPaths::words_of(std::string_view name) const {
  static const std::vector<std::string> kNone;
  const auto at =
      std::find_if(settings_.begin(), settings_.end(), [&](const Setting& one) { return one.name == name; });
  return at == settings_.end() ? kNone : at->words;
}

void UnitPaths::add(std::string_view text) {
  bool service = false;
  std::string line;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view part = stripped(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (part.starts_with('#') || part.starts_with(';')) continue;  // also within a line that goes on
    if (part.ends_with('\\')) {
      line += fmt::format("{} ", part.substr(0, part.size() - 1));
      if (!text.empty()) continue;
      part = {};
    }
    line += part;
    const std::string whole = std::exchange(line, {});
    if (whole.starts_with('[')) service = whole == "[Service]";
    const std::size_t equals = whole.find('=');
    if (!service || equals == std::string::npos) continue;
    std::string_view name = stripped(std::string_view(whole).substr(0, equals));
    for (const auto& [former, now] : kFormer)
      if (name == former) name = now;
    if (is_known(name)) set(name, stripped(std::string_view(whole).substr(equals + 1)));
  }
}

UnitPaths UnitPaths::shipped(std::string_view name) {
  UnitPaths out;
  out.set(kProtectSystem, "strict");
  out.set(kProtectHome, "yes");
  out.set(kPrivateTmp, "yes");
  out.set("ReadWritePaths", "-/var/lib/flightd");
  if (name == "flightd-broker.service") {
    out.set("ReadWritePaths", "-/run/flightd-broker");
  } else {
    out.set("RuntimeDirectory", "flightd");
    out.set(kUser, "flightd");
  }
  return out;
}

UnitPaths UnitPaths::read(const std::string& name, const std::string& root) {
  UnitPaths out = shipped(name);
  for (const char* folder : kFolders) {
    const std::string file = fmt::format("{}{}/{}", root, folder, name);
    if (is_masked(file)) break;
    const auto text = read_file(file);
    if (!text) continue;
    out = {};
    out.add(*text);
    break;
  }
  // A drop-in replaces another one of the same name in a less important folder; service.d is for all services,
  // flightd-.service.d for those whose names begin so, and a unit's own of the same name replaces it.
  std::vector<std::string> folders{name + ".d"};
  for (std::size_t dash = name.rfind('-'); dash != std::string::npos && dash > 0; dash = name.rfind('-', dash - 1))
    folders.push_back(name.substr(0, dash + 1) + ".service.d");
  folders.emplace_back("service.d");
  std::map<std::string, std::string> drop_ins;
  for (const std::string& drop_in_folder : folders)
    for (const char* folder : kFolders) {
      const std::string path = fmt::format("{}{}/{}", root, folder, drop_in_folder);
      auto entries = Directory::open(path);
      if (!entries) continue;
      static_cast<void>(entries->each([&](const Directory::Entry& entry) {
        if (entry.name.ends_with(".conf") && entry.name.front() != '.')
          drop_ins.emplace(entry.name, fmt::format("{}/{}", path, entry.name));
        return true;
      }));
    }
  for (const auto& [file_name, path] : drop_ins)
    if (const auto text = read_file(path); text && !is_masked(path)) out.add(*text);
  return out;
}

std::string UnitPaths::value_of(std::string_view name) const {
  const std::vector<std::string>& words = words_of(name);
  return words.empty() ? "no" : words.front();
}

// What ProtectSystem=, ProtectHome= and PrivateTmp= do.
std::vector<UnitPaths::Rule> UnitPaths::protections(What what) const {
  std::vector<Rule> rules;
  const auto add = [&](std::string_view name, std::initializer_list<const char*> paths, bool permits,
                       Strength strength) {
    for (const char* path : paths)
      rules.push_back({path, fmt::format("{}={}", name, value_of(name)), permits, strength});
  };
  const std::string system = value_of(kProtectSystem), home = value_of(kProtectHome), tmp = value_of(kPrivateTmp);
  if (what == What::writes) {
    if (system == "strict") {
      add(kProtectSystem, {"/"}, false, kReadOnly);
      add(kProtectSystem, {"/dev", "/proc", "/sys"}, true, kReadWrite);
    } else if (system == "full" || is_true(system)) {
      add(kProtectSystem, {"/usr", "/boot", "/efi"}, false, kReadOnly);
      if (system == "full") add(kProtectSystem, {"/etc"}, false, kReadOnly);
    }
    if (home == "read-only") add(kProtectHome, {"/home", "/root", "/run/user"}, false, kReadOnly);
  }
  if (is_true(home)) add(kProtectHome, {"/home", "/root", "/run/user"}, false, kInaccessible);
  if (home == "tmpfs") add(kProtectHome, {"/home", "/root", "/run/user"}, false, kTmpfs);
  if (is_true(tmp) || tmp == "disconnected")
    add(kPrivateTmp, {"/tmp", "/var/tmp"}, what == What::writes, kPrivateTmpfs);
  return rules;
}

std::string UnitPaths::decide(What what, const std::string& path) const {
  std::vector<Rule> rules = protections(what);
  for (const Known& known : kKnown) {
    const std::optional<bool> permits = what == What::writes ? known.writable : known.seen;
    if (!permits) continue;
    for (const std::string& word : words_of(known.name)) {
      const std::string place = path_in(known, word);
      if (place.find('%') != std::string::npos) {
        if (*permits) return "";
        continue;
      }
      // Another directory is there: what this program sees is not what the unit sees.
      const bool is_another = what == What::view && known.strength == kBind && source_in(word) != place;
      rules.push_back(
          {resolved(place), fmt::format("{}={}", known.name, word), *permits && !is_another, known.strength});
    }
  }
  const Rule* nearest = nullptr;
  for (const Rule& rule : rules) {
    if (!contains(rule.path, path)) continue;
    if (rule.strength == kInaccessible) return rule.setting;
    if (nearest == nullptr ||
        std::pair(rule.path.size(), rule.strength) > std::pair(nearest->path.size(), nearest->strength))
      nearest = &rule;
  }
  return nearest == nullptr || nearest->permits ? "" : nearest->setting;
}

std::string UnitPaths::forbids(const std::string& path) const {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return error ? "" : decide(What::writes, resolved(absolute.string()));
}

std::string UnitPaths::user() const {
  const std::vector<std::string>& words = words_of(kUser);
  return words.empty() || words.front().find('%') != std::string::npos ? "" : words.front();
}

std::string UnitPaths::hides(const std::string& path) const { return decide(What::view, path); }

}  // namespace flight::daemon
