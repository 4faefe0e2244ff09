// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/modules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A note section with the build-id `id`, as sysfs shows it.
std::string build_id_note(std::string_view id) {
  std::string bytes{4, 0, 0, 0, static_cast<char>(id.size()), 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0};
  bytes += id;
  bytes.resize((bytes.size() + 3) & ~std::size_t{3});
  return bytes;
}

TEST(Modules, AreReadByAddressAndDoNotOverlap) {
  const TempTree tree;
  tree.write("/proc/modules",
             "nls_utf8 65536 0 - Live 0xffffffffc0010000 (OE)\n"
             "ext4 983040 1 mbcache,jbd2, Live 0xffffffffc0002000\n"
             "homemade 4096 0 - Loading 0xffffffffc0100000\n"
             "hidden 4096 0 - Live 0x0000000000000000\n"
             "../evil 4096 0 - Live 0xffffffffc0200000\n"
             "cut");
  tree.write("/sys/module/ext4/notes/.note.gnu.build-id", build_id_note("ab"));
  const auto modules = loaded_modules(tree.root());
  ASSERT_TRUE(modules) << modules.error().what;
  ASSERT_EQ(modules->size(), 3U);
  EXPECT_EQ((*modules)[0].name, "ext4");
  EXPECT_EQ((*modules)[0].address, 0xffffffffc0002000U);
  EXPECT_EQ((*modules)[0].bytes, 0xe000U) << "cut where nls_utf8 begins";
  EXPECT_THAT((*modules)[0].build_id, ElementsAre('a', 'b'));
  EXPECT_NE((*modules)[0].inode, 0U);
  EXPECT_TRUE((*modules)[0].live);
  EXPECT_EQ((*modules)[1].bytes, 65536U);
  EXPECT_EQ((*modules)[1].inode, 0U);
  EXPECT_FALSE((*modules)[2].live);
}

TEST(Modules, AKernelWithoutModulesHasNone) {
  const TempTree tree;
  const auto modules = loaded_modules(tree.root());
  ASSERT_TRUE(modules);
  EXPECT_THAT(*modules, IsEmpty());
}

TEST(Modules, PathsAreThoseOfDepmod) {
  const TempTree tree;
  tree.write("/proc/sys/kernel/osrelease", "6.1.0\n");
  tree.write("/lib/modules/6.1.0/modules.dep",
             "kernel/fs/ext4/ext4.ko.xz: kernel/fs/mbcache.ko.xz\nkernel/fs/nls/nls-utf8.ko:\n");
  const auto paths = module_paths(tree.root()).value();
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(paths.at("ext4"), "/lib/modules/6.1.0/kernel/fs/ext4/ext4.ko.xz");
  EXPECT_EQ(paths.at("nls_utf8"), "/lib/modules/6.1.0/kernel/fs/nls/nls-utf8.ko");
}

TEST(Modules, AreFoundInTheTreeWithoutDepmod) {
  const TempTree tree;
  tree.write("/proc/sys/kernel/osrelease", "6.1.0\n");
  tree.write("/lib/modules/6.1.0/kernel/sound/core/snd-pcm.ko.zst", "");
  EXPECT_EQ(module_paths(tree.root()).value().at("snd_pcm"), "/lib/modules/6.1.0/kernel/sound/core/snd-pcm.ko.zst");
}

class ModulesOfAServer : public test::RootTest {
 protected:
  static void expect_refused(const TempTree& tree) {
    const auto paths = module_paths(tree.root());
    ASSERT_FALSE(paths) << paths->size();
    EXPECT_EQ(paths.error().errno_value(), EREMOTE);
    EXPECT_THAT(paths.error().what,
                testing::AllOf(testing::HasSubstr("/lib/modules/6.1.0"), testing::HasSubstr("fuse.hung")));
  }
};

// In an earlier version the broker could not be ended while it waited.
TEST_F(ModulesOfAServer, AreNotRead) {
  const TempTree tree;
  tree.write("/proc/sys/kernel/osrelease", "6.1.0\n");
  tree.write("/lib/modules/6.1.0/modules.dep", "kernel/fs/ext4/ext4.ko:\n");
  for (const char* folder : {"/lib/modules/6.1.0", "/lib/modules", "/lib"})
    test::in_own_mounts([&] {
      const test::HungMount hung(tree.root() + folder);
      expect_refused(tree);
    });
}

TEST_F(ModulesOfAServer, InOneFolderHideNoOthers) {
  const TempTree tree;
  tree.write("/proc/sys/kernel/osrelease", "6.1.0\n");
  tree.write("/lib/modules/6.1.0/kernel/ext4.ko", "");
  tree.write("/lib/modules/6.1.0/updates/other.ko", "");
  test::in_own_mounts([&] {
    const test::HungMount hung(tree.root() + "/lib/modules/6.1.0/updates");
    const auto paths = module_paths(tree.root());
    ASSERT_TRUE(paths) << paths.error().what;
    EXPECT_EQ(paths->size(), 1U);
    EXPECT_EQ(paths->count("ext4"), 1U);
  });
}

// As /lib is a link to usr/lib.
TEST_F(ModulesOfAServer, AreNotReadThroughALink) {
  const TempTree tree;
  tree.write("/proc/sys/kernel/osrelease", "6.1.0\n");
  tree.write("/usr/lib/modules/6.1.0/modules.dep", "kernel/fs/ext4/ext4.ko:\n");
  for (const std::string& target : {std::string("usr/lib"), tree.root() + "/usr/lib"}) {
    std::filesystem::remove(tree.root() + "/lib");
    std::filesystem::create_directory_symlink(target, tree.root() + "/lib");
    EXPECT_EQ(module_paths(tree.root()).value().size(), 1U) << target;
    for (const char* folder : {"/usr/lib/modules", "/usr"})
      test::in_own_mounts([&] {
        const test::HungMount hung(tree.root() + folder);
        expect_refused(tree);
      });
  }
}

// The digest is part of a file's name: the same symbols have the same digest, also after a restart.
TEST(Modules, TheDigestIsOfWhatKallsymsDependsOn) {
  const LoadedModule ext4{.name = "ext4", .address = 0xc0001000, .bytes = 4096, .inode = 7, .build_id = {1, 2}};
  const auto digest = [&](auto change) {
    LoadedModule other = ext4;
    change(other);
    return digest_of({other});
  };
  const std::string same = digest_of({ext4});
  EXPECT_EQ(same.size(), 16U);
  EXPECT_EQ(digest([](LoadedModule& m) { m.bytes = 2048; }), same) << "it freed its init part";
  EXPECT_EQ(digest([](LoadedModule& m) { m.inode = 8; }), same) << "loaded again, the same build at the same place";
  EXPECT_NE(digest([](LoadedModule& m) { m.address = 0xc0002000; }), same);
  EXPECT_NE(digest([](LoadedModule& m) { m.build_id = {1, 3}; }), same);
  EXPECT_NE(digest([](LoadedModule& m) { m.name = "xfs"; }), same);
  EXPECT_NE(digest([](LoadedModule& m) { m.live = false; }), same) << "its init symbols are in kallsyms";
  EXPECT_NE(digest_of({}), same);
  const auto nameless = [&](std::uint64_t inode) {
    return digest([&](LoadedModule& m) {
      m.build_id.clear();
      m.inode = inode;
    });
  };
  EXPECT_NE(nameless(7), nameless(8)) << "only the inode shows that it is another build";
}

}  // namespace
}  // namespace flight
