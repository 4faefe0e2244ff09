// SPDX-License-Identifier: Apache-2.0
#include <linux/capability.h>

#include <array>
#include <string_view>

#include "ctl/doctor/assess.hpp"
#include "libcore/base/units.hpp"

namespace flight::ctl {
namespace {

using enum FindingState;

struct Capability {
  unsigned number;
  std::string_view name, what_for;
};
// The broker's capabilities; daemon/broker/privileges.cpp keeps the same.
constexpr std::array<Capability, 7> kOfTheBroker{{
    {CAP_PERFMON, "CAP_PERFMON", "opens the events"},
    {CAP_IPC_LOCK, "CAP_IPC_LOCK", "lets the rings be larger than perf_event_mlock_kb"},
    {CAP_SYSLOG, "CAP_SYSLOG", "shows the kernel's symbols"},
    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "reads the mappings of other processes"},
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "reads their files' build-ids"},
    {CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", "reads the build-ids of mapped files, also of deleted ones"},
    {CAP_CHOWN, "CAP_CHOWN", "makes root the owner of the snapshots, so that perf opens them"},
}};
constexpr std::uint64_t kNice10 = 30;  // RLIMIT_NICE is 20 minus the level
constexpr int kWantedNice = -10;
constexpr std::uint64_t kFewDescriptors = 1024;
constexpr std::size_t kWarningsShown = 16;

std::uint64_t bit(unsigned capability) { return std::uint64_t{1} << capability; }

std::string limit_text(std::optional<std::uint64_t> limit) {
  if (!limit) return "not readable";
  return *limit == kUnlimited ? "unlimited" : std::to_string(*limit);
}

// systemd cannot set a limit above its own, but `systemctl show` prints the value of the unit.
std::string in_the_unit(std::string_view directive) {
  return fmt::format(
      "set {} in the unit; if it is set, the limit of systemd itself is lower: check the container's limits",
      directive);
}

std::string who(const ProcessFacts& process) { return fmt::format("pid {}, user {}", process.pid, process.user); }

Finding socket_finding(const DaemonFacts& daemon, const InstallFacts& install) {
  if (!daemon.socket_error) return {"socket", ok, daemon.socket, "flightd answers", ""};
  const bool should_run = !install.flightd.file.empty() && install.flightd.enabled.value_or("") == "enabled";
  return {"socket", should_run ? fail : warn, *daemon.socket_error, "without flightd nothing is recorded",
          !daemon.no_socket              ? "see its journal: journalctl -u flightd"
          : install.flightd.file.empty() ? "install and start flightd here, or name its socket with --socket"
                                         : "systemctl enable --now flightd"};
}

Finding realtime(const ProcessFacts& flightd) {
  const std::string why = "a ring is paused for microseconds only if the freeze thread runs without delay";
  const std::string limit = "RLIMIT_RTPRIO is " + limit_text(flightd.limit_rtprio);
  if (flightd.freeze_is_realtime == true) return {"flightd-realtime", ok, "its freeze thread runs SCHED_FIFO", why, ""};
  if (flightd.freeze_is_realtime == false)
    return {"flightd-realtime", warn, "its freeze thread does not run SCHED_FIFO; " + limit, why,
            in_the_unit("LimitRTPRIO=1")};
  return {"flightd-realtime", flightd.limit_rtprio.value_or(1) >= 1 ? ok : warn, limit, why,
          flightd.limit_rtprio.value_or(1) >= 1 ? "" : in_the_unit("LimitRTPRIO=1")};
}

Finding memory_lock(const ProcessFacts& flightd) {
  const std::string why =
      "when memory is short, pages that are not locked must be read from the disk first, which delays a snapshot";
  const std::string locked = format_bytes(flightd.locked_kb * 1024) + " locked, RLIMIT_MEMLOCK is ";
  const std::string limit = !flightd.limit_memlock || *flightd.limit_memlock == kUnlimited
                                ? limit_text(flightd.limit_memlock)
                                : format_bytes(*flightd.limit_memlock);
  if (flightd.locked_kb == 0)
    return {"flightd-memory-lock", warn, "nothing is locked, RLIMIT_MEMLOCK is " + limit, why,
            in_the_unit("LimitMEMLOCK=infinity")};
  if (flightd.limit_memlock.value_or(kUnlimited) != kUnlimited)
    return {"flightd-memory-lock", note, locked + limit, "memory that flightd uses later is not locked",
            in_the_unit("LimitMEMLOCK=infinity")};
  return {"flightd-memory-lock", ok, locked + limit, why, ""};
}

Finding nice_level(const ProcessFacts& flightd) {
  const std::string why = "on a busy machine flightd answers about 4 times sooner at nice -10";
  const std::string limit = "RLIMIT_NICE is " + limit_text(flightd.limit_nice);
  const bool good = flightd.nice ? *flightd.nice <= kWantedNice : flightd.limit_nice.value_or(kNice10) >= kNice10;
  const std::string found = flightd.nice ? fmt::format("its event loop runs at nice {}", *flightd.nice) : limit;
  return {"flightd-nice", good ? ok : note, good ? found : found + "; " + limit, why,
          good ? "" : in_the_unit("LimitNICE=-10")};
}

Finding descriptors(const std::string& check, const ProcessFacts& process) {
  const bool few = process.limit_nofile.value_or(kUnlimited) < kFewDescriptors;
  return {check, few ? warn : ok, "RLIMIT_NOFILE is " + limit_text(process.limit_nofile),
          "each ring and each event needs a descriptor, on each CPU", few ? in_the_unit("LimitNOFILE=65536") : ""};
}

Findings flightd_findings(const ProcessFacts& flightd) {
  Findings out;
  const bool root = flightd.uid == 0, nobody = flightd.user == "nobody";
  out.push_back({"flightd-user", root || nobody ? note : ok, who(flightd),
                 nobody ? "other services may run as nobody, and can then read the snapshots"
                 : root ? "an attacker who exploits a parser of flightd becomes root"
                        : "it serves clients, and no other service uses this user",
                 nobody ? "useradd --system --user-group --no-create-home --shell /usr/sbin/nologin flightd"
                 : root ? "set \"user\" in its configuration"
                        : ""});
  out.push_back({"flightd-capabilities", flightd.effective == 0 && flightd.permitted == 0 ? ok : warn,
                 flightd.permitted == 0 ? "none" : fmt::format("{:#x}", flightd.permitted),
                 "it parses input of all users, so it should have no capability",
                 flightd.permitted == 0 ? "" : "CapabilityBoundingSet= in the unit, or a \"user\" that is not root"});
  out.push_back(realtime(flightd));
  out.push_back(memory_lock(flightd));
  out.push_back(nice_level(flightd));
  out.push_back(descriptors("flightd-descriptors", flightd));
  return out;
}

Findings broker_findings(const ProcessFacts& broker) {
  std::string missing, why;
  for (const Capability& capability : kOfTheBroker)
    if ((broker.effective & bit(capability.number)) == 0) {
      missing += (missing.empty() ? "" : ", ") + std::string(capability.name);
      if (why.empty()) why = fmt::format("{} {}", capability.name, capability.what_for);
    }
  const bool sys_admin = (broker.effective & bit(CAP_SYS_ADMIN)) != 0;
  // CAP_SYS_ADMIN opens events, too.
  const bool no_events = (broker.effective & bit(CAP_PERFMON)) == 0 && !sys_admin;
  Findings out;
  out.push_back(
      {"broker-capabilities", missing.empty() ? ok : (no_events ? fail : warn),
       missing.empty() ? fmt::format("{}: all seven that it needs", who(broker))
                       : fmt::format("{}: without {}", who(broker), missing),
       missing.empty() ? "it opens the events, and reads which process runs which code" : why,
       missing.empty() ? "" : "CapabilityBoundingSet= and AmbientCapabilities= as in the unit that is shipped"});
  out.push_back(descriptors("broker-descriptors", broker));
  return out;
}

// An administrator paused it, or there is a fault.
Finding recording_finding(const Status& status) {
  const auto found = [&status](std::string_view word) {
    return fmt::format("{}, flightd {}, {}", word, status.version,
                       counted(static_cast<std::uint64_t>(std::max(status.cpus, 0)), "CPU"));
  };
  constexpr const char* kNothing = "events of this time are in no snapshot";
  switch (status.recording) {
    case RecordingState::on:
      return {"recording", ok, found("on"), "the rings hold the recent past", ""};
    case RecordingState::unproven:
      return {"recording", ok, found("unproven"),
              "flightd-broker has seen no sample yet, or none of the events that must occur on a busy CPU: flightd has "
              "just started, the recorded CPUs have been idle, or no configured event has occurred",
              ""};
    case RecordingState::silent:
      return {"recording", fail, found("silent"), "CPUs are busy and no event delivers samples: snapshots have none",
              "configure the event cpu-clock"};
    case RecordingState::paused:
      return {"recording", warn, found("paused"), kNothing, "flightctl resume"};
    case RecordingState::off:
      break;
  }
  return {"recording", fail, found("off"), kNothing,
          "remove the cause, which flightctl status and journalctl -u flightd -u flightd-broker show; as a service, "
          "flightd "
          "tries again every 10 s"};
}

Findings status_findings(const Status& status) {
  Findings out{recording_finding(status)};
  std::size_t shown = 0;
  constexpr const char* kAdvice = "see troubleshooting.md in /usr/share/doc/flightd";
  for (const auto& [state, texts] : {std::pair(fail, &status.errors), {warn, &status.warnings}, {note, &status.notes}})
    for (const std::string& text : *texts) {
      if (++shown > kWarningsShown) return out;
      out.push_back({"status", state, text, "reported by flightd", state == note ? "" : kAdvice});
    }
  return out;
}

}  // namespace

Findings assess_daemon(const DaemonFacts& daemon, const InstallFacts& install) {
  Findings out{socket_finding(daemon, install)};
  const auto append = [&out](Findings more) {
    for (Finding& finding : more) out.push_back(std::move(finding));
  };
  if (daemon.flightd) append(flightd_findings(*daemon.flightd));
  if (daemon.broker) append(broker_findings(*daemon.broker));
  if (daemon.socket_error) return out;
  if (daemon.flightd && !daemon.broker)
    out.push_back({"broker-capabilities", note, "its broker is not visible from here", "the broker opens the events",
                   "sudo flightctl doctor"});
  if (daemon.status)
    append(status_findings(*daemon.status));
  else if (!daemon.status_error.empty())
    out.push_back({"recording", fail, daemon.status_error, "cannot find out whether flightd records",
                   "journalctl -u flightd -u flightd-broker; systemctl status flightd flightd-broker"});
  else
    out.push_back({"recording", note, daemon.status_refused, "only root and flightd's group may read its state",
                   "sudo flightctl doctor"});
  return out;
}

Finding assess_sys_admin(const Facts& facts) {
  constexpr const char* kDropIns = "/etc/systemd/system/flightd-broker.service.d";
  const bool strict = facts.kernel.paranoid.value_or(0) >= 3;
  // The result of the test counts; without it, the known behaviour of Debian's and Ubuntu's kernels.
  const bool needed = !facts.kernel.probe.perfmon_suffices.value_or(!strict);
  const std::string tried = facts.kernel.probe.perfmon_suffices ? " (tried)" : "";
  const std::string value = facts.kernel.paranoid ? std::to_string(*facts.kernel.paranoid) : "unknown";
  Finding out{"cap-sys-admin", ok, "",
              needed ? "this kernel requires it at perf_event_paranoid " + value + tried
                     : "CAP_PERFMON opens events here" + tried,
              ""};
  if (facts.daemon.broker) {
    const bool has = (facts.daemon.broker->permitted & bit(CAP_SYS_ADMIN)) != 0;
    out.found = has ? "the broker has it" : "the broker does not have it";
    if (needed && !has) {
      out.state = fail;
      out.advice = "sysctl kernel.perf_event_paranoid=2, or add it to the broker's unit (10-cap-sys-admin.conf)";
    } else if (!needed && has) {
      out.state = warn;
      out.advice = "systemctl kill flightd-broker: systemd starts it again, and it then drops the capability";
    }
  } else if (!facts.install.broker.file.empty()) {
    out.found =
        facts.install.sys_admin_drop_in ? "10-cap-sys-admin.conf gives it to the broker" : "no drop-in gives it";
    if (needed && !facts.install.sys_admin_drop_in) {
      out.state = fail;
      out.advice = "sysctl kernel.perf_event_paranoid=2, or add 10-cap-sys-admin.conf to flightd-broker.service.d";
    }
  } else {
    out.found = needed ? "the broker will need it" : "the broker will not need it";
  }
  // The broker drops it at its start; an administrator who wants to remove it masks the file.
  if (!needed && facts.install.sys_admin_drop_in && out.state == ok) {
    out.state = note;
    out.advice = fmt::format(
        "not needed: the broker drops it at its start; to remove it: mkdir -p {0}; ln -s /dev/null {0}/{1}; systemctl "
        "daemon-reload; systemctl kill flightd-broker",
        kDropIns, "10-cap-sys-admin.conf");
  }
  return out;
}

}  // namespace flight::ctl
