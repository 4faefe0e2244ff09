// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/router.hpp"

#include <utility>

#include "daemon/control/peer.hpp"

namespace flight::daemon {

void ControlRouter::get_status(Done done) { status_.get(std::move(done)); }

void ControlRouter::take_snapshot(const Caller& caller, SnapshotParameters parameters, Progress progress, Done done) {
  snapshots_.take(caller, parameters, std::move(progress), std::move(done));
}

void ControlRouter::record(const Caller& caller, RecordParameters parameters, Follower follower, Done done) {
  recordings_.record(caller, std::move(parameters), std::move(follower), std::move(done));
}

void ControlRouter::stop_recording(std::string id, Done done) { recordings_.stop(id, std::move(done)); }

void ControlRouter::list_snapshots(Done done) { store_.list(std::move(done)); }

void ControlRouter::describe_snapshot(std::string id, Done done) { store_.describe(std::move(id), std::move(done)); }

void ControlRouter::remove_snapshot(std::string id, Done done) { store_.remove(std::move(id), std::move(done)); }

void ControlRouter::pin_snapshot(std::string id, bool pinned, Done done) {
  store_.pin(std::move(id), pinned, std::move(done));
}

void ControlRouter::read_snapshot(std::string id, SnapshotFile file, Opened opened) {
  store_.read(std::move(id), file, std::move(opened));
}

void ControlRouter::vacuum(bool dry_run, Progress progress, Done done) {
  store_.vacuum(dry_run, std::move(progress), std::move(done));
}

void ControlRouter::list_triggers(Done done) { triggers_.list(std::move(done)); }

void ControlRouter::fire_trigger(const Caller& caller, FireParameters parameters, Done done) {
  triggers_.fire(caller, std::move(parameters), std::move(done));
}

void ControlRouter::set_trigger(const Caller& caller, SetTriggerParameters parameters, Done done) {
  triggers_.set(caller, parameters, std::move(done));
}

void ControlRouter::set_recording(const Caller& caller, bool recording, Done done) {
  recording_.set(recording, name_of(caller), std::move(done));
}

void ControlRouter::reload(const Caller& caller, Done done) {
  reloader_.reload(name_of(caller), [done = std::move(done)](const CallResult<ReloadReport>& outcome) {
    if (!outcome) return done(tl::unexpected(outcome.error()));
    done(to_json(*outcome));
  });
}

void ControlRouter::get_config(Done done) { done(to_json(reloader_.report())); }

void ControlRouter::monitor(Listener listener) {
  const std::string& written = snapshots_.disk_trouble();
  events_.listen(std::move(listener), written.empty() ? store_.trouble_text() : written, recording_.on());
}

}  // namespace flight::daemon
