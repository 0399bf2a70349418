#include "lib/verify/sandbox/seccomp.h"

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

namespace buttress {
namespace {

constexpr const char* kRefused[] = {
    // other machines and other programs
    "socket", "connect", "bind", "listen", "accept", "accept4", "ptrace", "process_vm_readv",
    "process_vm_writev", "process_madvise", "pidfd_getfd", "pidfd_send_signal", "kcmp",
    "perf_event_open", "bpf", "userfaultfd",
    // namespaces and mounts
    "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount",
    "fspick", "open_tree", "move_mount", "mount_setattr", "name_to_handle_at", "open_by_handle_at",
    "fanotify_init", "quotactl", "swapon", "swapoff",
    // memory that the limits of a process do not count
    "memfd_create", "memfd_secret", "shmget", "shmat", "shmctl", "msgget", "semget", "mq_open",
    // administration of the kernel
    "io_uring_setup", "io_uring_enter", "io_uring_register", "add_key", "request_key", "keyctl",
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot",
    "acct", "syslog", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname",
    "setdomainname", "iopl", "ioperm", "personality", "vhangup", "lookup_dcookie", "nfsservctl"};

constexpr unsigned long kNamespaceFlags[] = {CLONE_NEWUSER,  CLONE_NEWNS,  CLONE_NEWPID,
                                             CLONE_NEWNET,   CLONE_NEWIPC, CLONE_NEWUTS,
                                             CLONE_NEWCGROUP};

// Requests that insert characters into the input of a terminal.
constexpr unsigned long kTerminalInput[] = {TIOCSTI, TIOCLINUX};

struct Release {
  void operator()(void* context) const { seccomp_release(context); }
};

bool AddRules(scmp_filter_ctx context) {
  const std::uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
  for (const char* name : kRefused) {
    const int number = seccomp_syscall_resolve_name(name);
    // A negative number is a call that this architecture lacks.
    if (number == __NR_SCMP_ERROR ||
        (number >= 0 && seccomp_rule_add(context, refuse, number, 0) != 0))
      return false;
  }
  // glibc falls back to clone, whose flags a filter can examine.
  if (seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) != 0) return false;
  for (const unsigned long flag : kNamespaceFlags) {
    const scmp_arg_cmp has_flag{0, SCMP_CMP_MASKED_EQ, flag, flag};
    if (seccomp_rule_add(context, refuse, SCMP_SYS(clone), 1, has_flag) != 0) return false;
  }
  // A process that asks for no signal at the death of its parent may outlive it.
  const scmp_arg_cmp is_death_signal{0, SCMP_CMP_EQ, PR_SET_PDEATHSIG, 0};
  if (seccomp_rule_add(context, refuse, SCMP_SYS(prctl), 1, is_death_signal) != 0) return false;
  for (const unsigned long request : kTerminalInput) {
    const scmp_arg_cmp is_request{1, SCMP_CMP_MASKED_EQ, 0xffffffffUL, request};
    if (seccomp_rule_add(context, refuse, SCMP_SYS(ioctl), 1, is_request) != 0) return false;
  }
  return true;
}

}  // namespace

Result<OwnedFd> MakeSeccompFilter() {
  // By libseccomp's default, calls of another architecture (32 bit, x32) kill the program.
  const std::unique_ptr<void, Release> context(seccomp_init(SCMP_ACT_ALLOW));
  if (context == nullptr || !AddRules(context.get()))
    return Internal("libseccomp cannot make the filter of the sandbox");
  OwnedFd file(::memfd_create("seccomp", MFD_CLOEXEC));
  if (file.get() < 0)
    return Unavailable(std::string("cannot make a file in memory: ") + std::strerror(errno));
  if (seccomp_export_bpf(context.get(), file.get()) != 0)
    return Internal("libseccomp cannot write the filter of the sandbox");
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

}  // namespace buttress
