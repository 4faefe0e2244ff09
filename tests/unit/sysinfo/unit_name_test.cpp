// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/unit_name.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace flight {
namespace {

TEST(UnitName, IsTheInnermostServiceOrScope) {
  EXPECT_EQ(unit_of("/system.slice/burn.service"), "burn.service");
  EXPECT_EQ(unit_of("/system.slice/system-getty.slice/getty@tty1.service"), "getty@tty1.service");
  EXPECT_EQ(unit_of("/system.slice/burn.service/payload/worker"), "burn.service");
  EXPECT_EQ(unit_of("/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.x.scope"), "app-org.x.scope");
  EXPECT_EQ(unit_of("/user.slice/user-1000.slice/session-3.scope"), "session-3.scope");
  EXPECT_EQ(unit_of("/system.slice/_cpu.service"), "cpu.service");
}

// Their daemons and helpers must not be shown as all of the slice.
TEST(UnitName, CanBeAMountASocketOrASwap) {
  for (const char* unit : {"mnt-storage.mount", "cups.socket", "dev-sda2.swap"}) {
    const std::string path = fmt::format("/system.slice/{}", unit);
    EXPECT_EQ(unit_of(path), unit);
    EXPECT_EQ(name_of_cgroup(path).label, unit);
    EXPECT_EQ(name_of_cgroup(path + "/x").path, path);
  }
  EXPECT_EQ(name_of_cgroup("/user.slice/user-1000.slice/user@1000.service/home-me.mount").label,
            "user@1000/home-me.mount");
  for (const char* path : {"/system.slice/.mount", "/system.slice/a.mounts"}) EXPECT_EQ(unit_of(path), "system.slice");
}

TEST(UnitName, ElseTheInnermostSlice) {
  EXPECT_EQ(unit_of("/user.slice/user-1000.slice"), "user-1000.slice");
  EXPECT_EQ(unit_of("/machine.slice/payload"), "machine.slice");
}

TEST(UnitName, ElseThereIsNone) {
  for (const char* path : {"", "/", "/docker/0123abcd", "/.service", "/.scope/x", "///", "/a.services", "/service"})
    EXPECT_EQ(unit_of(path), "") << path;
}

TEST(CgroupName, AContainerIsNamedAsItsRuntimeDoes) {
  const std::string id = "3f2a91c7d8e0" + std::string(52, 'b');
  const auto label = [](const std::string& path) { return name_of_cgroup(path).label; };
  EXPECT_EQ(label("/system.slice/docker-" + id + ".scope"), "docker-3f2a91c7d8e0");
  EXPECT_EQ(label("/docker/" + id), "docker-3f2a91c7d8e0");
  EXPECT_EQ(label("/machine.slice/libpod-" + id + ".scope/container"), "libpod-3f2a91c7d8e0");
  EXPECT_EQ(label("/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope"),
            "cri-containerd-3f2a91c7d8e0");
  EXPECT_EQ(label("/kubepods/burstable/pod77/" + id), "kubepods-3f2a91c7d8e0");
  EXPECT_EQ(label("/system.slice/containerd.service/kubepods-besteffort-pod7.slice:cri-containerd:" + id),
            "containerd.service/cri-containerd-3f2a91c7d8e0");
  EXPECT_EQ(label("/kubepods-pod7.slice:cri-containerd:" + id), "cri-containerd-3f2a91c7d8e0");
  EXPECT_EQ(label("/:" + id), "container-3f2a91c7d8e0");
  EXPECT_EQ(name_of_cgroup("/kubepods-pod7.slice:cri-containerd:" + id).container, id);
  EXPECT_EQ(label("/" + id), "container-3f2a91c7d8e0");
  EXPECT_EQ(label("/docker/" + id + "/system.slice/nginx.service"), "docker-3f2a91c7d8e0/nginx.service");
  EXPECT_EQ(label("/lxc.payload.web1/system.slice/nginx.service"), "lxc-web1/nginx.service");
  EXPECT_EQ(label("/lxc/101/ns/system.slice/nginx.service"), "lxc-101/nginx.service");
  EXPECT_EQ(label("/lxc/101/ns"), "lxc-101");
  EXPECT_EQ(label("/lxc/101/ns/lxc/web1/init.scope"), "lxc-101/lxc-web1/init.scope");
  EXPECT_EQ(label("/lxc/" + id), "lxc-3f2a91c7d8e0");
  EXPECT_EQ(label("/lxc/a.service"), "a.service");
  for (const char* none : {"/lxc", "/lxc/", "/lxc//"}) EXPECT_EQ(label(none), none);
  EXPECT_EQ(name_of_cgroup("/lxc/101/ns").container, "101");
  EXPECT_EQ(name_of_cgroup("/docker/" + id).container, id);
}

// The owner of a delegated cgroup can give any name to the cgroups below it.
TEST(CgroupName, TheLabelShowsWhoseUnitItIs) {
  const std::string id = "3f2a91c7d8e0" + std::string(52, 'b'), other = "77" + std::string(62, 'c');
  const std::string user = "/user.slice/user-1000.slice/user@1000.service";
  const auto label = [](const std::string& path) { return name_of_cgroup(path).label; };
  EXPECT_EQ(label("/system.slice/payroll.service"), "payroll.service");
  EXPECT_EQ(label(user + "/app.slice/payroll.service"), "user@1000/payroll.service");
  EXPECT_EQ(label(user + "/app.slice/payroll.service/payload"), "user@1000/payroll.service");
  EXPECT_EQ(label(user + "/app.slice/eve.service/payroll.service"), "user@1000/eve.service/payroll.service");
  EXPECT_EQ(label(user + "/user.slice/libpod-" + id + ".scope/container"), "user@1000/libpod-3f2a91c7d8e0");
  EXPECT_EQ(label(user + "/user@0.service"), "user@1000/user@0.service");
  EXPECT_EQ(label(user), "user@1000.service");
  EXPECT_EQ(label(user + "/app.slice"), "user@1000/app.slice");
  EXPECT_EQ(label(user + "/app.slice/app-browser.slice/payload"), "user@1000/app-browser.slice");
  EXPECT_EQ(label("/docker/" + other + "/system.slice"), "docker-77cccccccccc/system.slice");
  EXPECT_EQ(label("/system.slice/eve.service/system.slice/x"), "eve.service/system.slice");
  EXPECT_EQ(label("/user.slice/user-1000.slice/session-3.scope"), "session-3.scope");
  EXPECT_EQ(label("/system.slice/eve.service/payroll.service"), "eve.service/payroll.service");
  EXPECT_EQ(label("/system.slice/eve.service/user@0.service/a.service"), "eve.service/user@0/a.service");
  EXPECT_EQ(label("/system.slice/eve.service/docker-" + id + ".scope"), "eve.service/docker-3f2a91c7d8e0");
  EXPECT_EQ(label("/docker/" + other + "/docker/" + id), "docker-77cccccccccc/docker-3f2a91c7d8e0");
  EXPECT_EQ(label("/machine.slice/systemd-nspawn@web.service/payload/system.slice/nginx.service"), "web/nginx.service");
  EXPECT_EQ(label("/machine.slice/machine-my\\x2dweb.scope/payload/system.slice/nginx.service"),
            "my-web/nginx.service");
  EXPECT_EQ(label("/machine.slice/machine-web.scope/payload"), "machine-web.scope");
  EXPECT_EQ(label("/machine.slice/machine-.scope/payload/a.service"), "machine-.scope/a.service");
  EXPECT_EQ(label(user + "/init.scope"), "user@1000/init.scope");
  EXPECT_EQ(label("/system.slice/user@eve.service/a.service"), "user@eve.service/a.service");
}

TEST(CgroupName, TheUnitIsTheLabelAndNeverAPath) {
  const std::string id = "3f2a91c7d8e0" + std::string(52, 'b');
  const auto unit = [](const std::string& path) { return name_of_cgroup(path).unit; };
  EXPECT_EQ(unit("/system.slice/nginx.service"), "nginx.service");
  EXPECT_EQ(unit("/docker/" + id + "/system.slice/nginx.service"), "docker-3f2a91c7d8e0/nginx.service");
  EXPECT_EQ(unit("/system.slice/docker-" + id + ".scope"), "docker-3f2a91c7d8e0");
  EXPECT_EQ(unit("/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service"), "user@1000/nginx.service");
  EXPECT_EQ(unit("/machine.slice/payload"), "machine.slice");
  for (const char* none : {"/payload/x", "/", ""}) EXPECT_EQ(unit(none), "") << none;
}

TEST(CgroupName, ThePathEndsWithTheUnit) {
  const std::string id(64, 'a');
  const auto path = [](const std::string& cgroup) { return name_of_cgroup(cgroup).path; };
  EXPECT_EQ(path("/system.slice/x.service/worker"), "/system.slice/x.service");
  EXPECT_EQ(path("/system.slice/x.service/ax.service.d/y"), "/system.slice/x.service");
  EXPECT_EQ(path("/system.slice/_cpu.service/y"), "/system.slice/_cpu.service");
  EXPECT_EQ(path("/docker/" + id + "/system.slice/nginx.service/y"), "/docker/" + id + "/system.slice/nginx.service");
  EXPECT_EQ(path("/docker/" + id + "/y"), "/docker/" + id);
  EXPECT_EQ(path("/docker/" + id + "/a.slice/b.slice/y"), "/docker/" + id + "/a.slice/b.slice");
  EXPECT_EQ(path("/machine.slice/payload"), "/machine.slice");
  EXPECT_EQ(path("/lxc/101/ns/x"), "/lxc/101");
  EXPECT_EQ(path("/payload/x"), "/payload/x");
}

TEST(CgroupName, ElseItIsTheUnitOrThePath) {
  EXPECT_EQ(name_of_cgroup("/system.slice/burn.service/x").label, "burn.service");
  EXPECT_EQ(name_of_cgroup("/payload/x").label, "/payload/x");
  EXPECT_EQ(name_of_cgroup("/docker/0123abcd").label, "/docker/0123abcd");
  for (const char* none : {"", "/"}) EXPECT_EQ(name_of_cgroup(none).label, "") << none;
  EXPECT_EQ(name_of_cgroup("/docker/0123abcd").container, "");
}

}  // namespace
}  // namespace flight
