// SPDX-License-Identifier: Apache-2.0
// Reload and GetConfig.
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include "daemon/peer.hpp"
#include "daemon/service.hpp"

namespace flight {

void Service::reload_for(const std::string& who, Reloader::Done done) {
  if (reloader_ == nullptr) return done(tl::unexpected(stopping()));
  reloader_->reload([this, who, done = std::move(done)](const CallResult<ReloadReport>& outcome) {
    if (!outcome) {
      spdlog::warn("reload, asked for by {}: {}; the old configuration stays", who,
                   error_message({outcome.error().parameters, outcome.error().name, false}));
    } else {
      spdlog::info("configuration {} is in force, asked for by {}{}", outcome->digest, who,
                   outcome->changed ? "; rings were opened or closed" : "");
      for (const std::string& warning : outcome->warnings) spdlog::warn("{}", warning);
      events_.publish({.event = std::string(kReloaded), .message = "by " + who});
    }
    done(outcome);
  });
}

void Service::reload(const Caller& caller, Done done) {
  reload_for(name_of(caller), [done = std::move(done)](const CallResult<ReloadReport>& outcome) {
    if (!outcome) return done(tl::unexpected(outcome.error()));
    done(to_json(*outcome));
  });
}

void Service::get_config(Done done) {
  if (reloader_ == nullptr) return done(tl::unexpected(stopping()));
  done(to_json(reloader_->report()));
}

void Service::configure(const StoreConfig& store) {
  max_snapshot_bytes_ = store.max_snapshot_bytes;
  boost::asio::post(store_, [this, store] { budget_.use(store); });
  keep_budget();
}

}  // namespace flight
