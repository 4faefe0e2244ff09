// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "ctl/doctor/assess.hpp"
#include "libcore/base/units.hpp"

namespace flight::ctl {
namespace {

using enum FindingState;

constexpr int kOldestPerfMajor = 6, kOldestPerfMinor = 1;  // the oldest perf that the project's tests use
constexpr std::uint64_t kHardlyAnything = 64ULL << 20U;    // less than one snapshot of a small machine
constexpr const char* kMembers = "its members may use all flightctl commands";
constexpr const char* kFirers = "its members may fire external triggers, and nothing else";

Finding group(const std::string& name, const char* why, const GroupFacts& group, bool root) {
  Finding out{"group-" + name, ok, "", why, ""};
  if (!group.there) {
    out.state = note;
    out.found = "there is none";
    out.advice = "systemd-sysusers, or groupadd --system " + name;
  } else if (group.member) {
    out.found = "you are a member";
  } else if (group.listed) {
    out.state = note;
    out.found = "you are a member from your next login on";
    out.advice = "log in again";
  } else {
    out.found = root ? "there; you are root" : "you are not a member";
    if (!root)
      out.state = note, out.advice = fmt::format("sudo usermod -aG {} $USER, if you should be, and log in again", name);
  }
  return out;
}

Finding unit(const std::string& name, const UnitFacts& unit, bool systemd, bool wanted_on) {
  Finding out{"unit-" + name, ok, unit.file, "systemd starts it at boot and restarts it after a failure", ""};
  if (unit.file.empty()) {
    out.state = note;
    out.found = "not installed, or masked";
    out.advice = systemd ? "install the package, or copy the units (systemd/README.md)" : "nothing, without systemd";
    return out;
  }
  if (unit.enabled) out.found += ", " + *unit.enabled;
  if (unit.active) out.found += ", " + *unit.active;
  if (!systemd) out.found += "; systemd does not run here";
  if (wanted_on && unit.enabled && *unit.enabled != "enabled") {
    out.state = note;
    out.advice = "systemctl enable --now flightd";
  }
  if (unit.active && *unit.active == "failed") {
    out.state = fail;
    out.advice = fmt::format("journalctl -u {}", name);
  }
  return out;
}

// Whether "perf version 6.1.187" is older than 6.1. False for another text.
bool old_perf(const std::string& text) {
  const std::size_t begin = text.find_first_of("0123456789");
  if (begin == std::string::npos) return false;
  const char* const end = text.data() + text.size();
  int major = 0, minor = 0;
  const auto [dot, error] = std::from_chars(text.data() + begin, end, major);
  if (error != std::errc{} || dot == end || *dot != '.') return false;
  std::from_chars(dot + 1, end, minor);
  return major < kOldestPerfMajor || (major == kOldestPerfMajor && minor < kOldestPerfMinor);
}

Finding perf(const std::optional<std::string>& version) {
  const std::string why = "flightctl report shows a snapshot with it";
  if (!version || version->empty())
    return {"perf", note, "not installed", why, "Debian: linux-perf, Ubuntu: linux-tools-generic, others: perf"};
  if (old_perf(*version))
    return {"perf", warn, *version, "perf before 6.1 may not read compressed snapshots", "install a newer one"};
  return {"perf", ok, *version, why, ""};
}

// Whether one of the triggers fires when this program kills: that of flightd.json(5), or one on each signal.
bool is_watched(const std::string& killer, const std::vector<std::string>& triggers) {
  constexpr std::string_view kSignal = "signal:signal_generate";
  return std::any_of(triggers.begin(), triggers.end(), [&](const std::string& condition) {
    return condition == kSignal ||
           (condition.starts_with(kSignal) && condition.find("\"" + killer + "\"") != std::string::npos);
  });
}

Findings accounts(const InstallFacts& install) {
  if (!install.no_accounts.empty())
    return {{"users", warn, install.no_accounts, "flightd looks up its user and its groups at a start",
             "getent passwd flightd; getent group flightd; then correct /etc/nsswitch.conf or its server"}};
  const bool both = install.user_flightd && install.user_broker;
  const bool as_service = !install.flightd.file.empty();
  return {{"users", both ? ok : (as_service ? fail : note),
           both                   ? "flightd and flightd-broker"
           : install.user_flightd ? "flightd, but no flightd-broker"
                                  : "no user flightd",
           "each process has its own user; without them flightd runs as nobody",
           both ? "" : "systemd-sysusers flightd.conf, or useradd --system --user-group flightd"},
          group("flightd", kMembers, install.group, install.root),
          group("flightd-trigger", kFirers, install.trigger_group, install.root)};
}

}  // namespace

Findings assess_install(const InstallFacts& install) {
  Findings out = accounts(install);
  out.push_back(unit("flightd", install.flightd, install.systemd, true));
  out.push_back(unit("flightd-broker", install.broker, install.systemd, false));
  if (const ConfigFacts& config = install.config; !config.command.empty())
    out.push_back({"configuration", config.good ? ok : fail, config.good ? "valid for the service" : config.error,
                   "the service reads it as its own user, and sees neither homes nor /tmp: a start or reload fails if "
                   "it cannot",
                   config.good ? "" : "correct it; to check it again: " + config.command});
  out.push_back({"journal", install.journald ? ok : note, install.journald ? "systemd-journald listens" : "no journald",
                 "each snapshot and each problem is a journal entry with fields",
                 install.journald ? "" : "flightd writes the same to stderr; keep it"});
  out.push_back(perf(install.perf_version));
  return out;
}

Findings assess_store(const StoreFacts& store) {
  if (store.folder.empty()) return {};
  if (store.silent)
    return {{"disk", fail, fmt::format("the disk of {} does not answer", store.folder),
             "recording goes on, but no snapshot can be written or read",
             "look at the mount (findmnt --target) and the kernel log (dmesg)"}};
  Finding disk{"disk", ok,
               fmt::format("{} of {} are free at {}", format_bytes(store.free_bytes), format_bytes(store.total_bytes),
                           store.folder),
               "snapshots are kept there", ""};
  if (store.total_bytes == 0) {
    disk.state = note;
    disk.found = fmt::format("the file system of {} does not report its size", store.folder);
    disk.why = "store.keep_free cannot be kept there, and percentages of store.max_use are not known";
    disk.advice = "set store.max_use in bytes";
  } else if (store.free_bytes < kHardlyAnything) {
    disk.state = fail;
    disk.why = "there is hardly enough space for one snapshot";
    disk.advice = "free some space, or mount a larger disk there";
  } else if (store.keep_free_bytes && store.free_bytes < *store.keep_free_bytes) {
    disk.state = warn;
    disk.why = fmt::format("store.keep_free is {}: below it the oldest snapshots are deleted, if that reaches it",
                           format_bytes(*store.keep_free_bytes));
    disk.advice = "free some space, or lower store.keep_free";
  }
  Findings out{disk};
  if (!store.max_bytes) return out;
  Finding budget{"store", ok,
                 fmt::format("snapshots take {} of {}", format_bytes(store.used_bytes), format_bytes(*store.max_bytes)),
                 "above store.max_use the oldest are deleted", ""};
  const std::uint64_t rest = *store.max_bytes - std::min(*store.max_bytes, store.used_bytes);
  if (store.used_bytes > *store.max_bytes) {
    budget.state = warn;
    budget.advice = "unpin or remove some, or raise store.max_use";
  } else if (store.total_bytes != 0 && rest > store.free_bytes) {
    budget.state = note;
    budget.why = fmt::format("the disk has less free than the {} that the budget still allows", format_bytes(rest));
    budget.advice = "no action needed: store.keep_free applies first; or free some space";
  }
  out.push_back(budget);
  return out;
}

Findings assess(const Facts& facts) {
  KernelFacts kernel = facts.kernel;
  std::erase_if(kernel.oom_killers,
                [&](const std::string& name) { return is_watched(name, facts.daemon.event_triggers); });
  Findings out = assess_kernel(kernel);
  const auto append = [&out](Findings more) {
    for (Finding& finding : more) out.push_back(std::move(finding));
  };
  append({assess_sys_admin(facts)});
  append(assess_install(facts.install));
  append(assess_daemon(facts.daemon, facts.install));
  append(assess_store(facts.store));
  return out;
}

}  // namespace flight::ctl
