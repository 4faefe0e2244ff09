// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/own_broker.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace flight {

void OwnBroker::SetUp() {
  for (const char* name : {"state", "run", "broker"}) (void)make_own(name);
  ASSERT_EQ(chmod((folder_ / "broker").c_str(), 0700), 0);
  write_text(folder_ / "broker.json", config_.dump(2));
  ASSERT_NO_FATAL_FAILURE(start_broker());
  std::string id = std::to_string(kClientId);
  options_.prefix = {"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups", "--inh-caps=-all", "--"};
  options_.arguments = {"--broker", socket_};
}

std::string OwnBroker::make_own(std::string_view name) {
  std::string path = folder_ / name;
  EXPECT_EQ(mkdir(path.c_str(), 0755), 0);
  EXPECT_EQ(chown(path.c_str(), kClientId, kClientId), 0);
  return path;
}

void OwnBroker::start_broker(const test::ServiceManager* manager) {
  std::string id = std::to_string(kClientId);
  unlink(socket_.c_str());
  broker_.reset();
  ChildOptions options;
  if (manager != nullptr) options.prepare = [manager] { manager->hand_over(); };
  Arguments command = broker_prefix_;
  for (const std::string& word : Arguments{program_, "--config", folder_ / "broker.json", "--state-dir",
                                           folder_ / "state", "--group", id, "--socket", socket_, "--client-uid", id})
    command.push_back(word);
  broker_.emplace(Child::start(command, options));
  struct stat info {};
  ASSERT_TRUE(wait_until([&] { return stat(socket_.c_str(), &info) == 0 || !broker_->running(); }, 20s));
  ASSERT_TRUE(broker_->running()) << broker_->err();
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

void OwnBroker::replace(TestDaemon& daemon) const {
  daemon.process().kill();
  ASSERT_TRUE(daemon.start(config_, options_));
}

void OwnBroker::TearDown() {
  if (HasFailure()) fmt::print(stderr, "---- the broker's log\n{}----\n", broker_ ? broker_->err() : "");
}

}  // namespace flight
