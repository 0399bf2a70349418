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

// What interpreters, compilers and compiled programs call. What is not here, also what a newer
// kernel adds, does not exist in the sandbox. Missing on purpose are sockets, tracing, namespaces
// and mounts, memory that the limits of a process do not count (memfd_create, shmget and the like)
// and the administration of the kernel.
constexpr const char* kAllowed[] = {
    // files
    "access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat", "dup",
    "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod",
    "fchmodat", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr", "flock", "fstat",
    "fstatfs", "fsync", "ftruncate", "futimesat", "getcwd", "getdents", "getdents64", "getxattr",
    "lchown", "lgetxattr", "link", "linkat", "listxattr", "lseek", "lstat", "mkdir", "mkdirat",
    "mknod", "mknodat", "newfstatat", "open", "openat", "openat2", "pipe", "pipe2", "pread64",
    "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink",
    "readlinkat", "readv", "rename", "renameat", "renameat2", "rmdir", "sendfile", "splice", "stat",
    "statfs", "statx", "symlink", "symlinkat", "sync_file_range", "tee", "truncate", "umask",
    "unlink", "unlinkat", "utime", "utimensat", "utimes", "write", "writev",
    // waiting
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait",
    "eventfd", "eventfd2", "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch",
    "poll", "ppoll", "pselect6", "select", "timerfd_create", "timerfd_gettime", "timerfd_settime",
    // pairs of sockets, which event loops wake themselves with
    "getsockopt", "recvfrom", "recvmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    "socketpair",
    // memory
    "brk", "get_mempolicy", "madvise", "mbind", "membarrier", "mincore", "mlock", "mprotect",
    "mremap", "msync", "munlock", "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect",
    "set_mempolicy",
    // processes and threads
    "arch_prctl", "execve", "execveat", "exit", "exit_group", "fork", "futex", "futex_waitv",
    "get_robust_list", "get_thread_area", "getegid", "geteuid", "getgid", "getgroups", "getpgid",
    "getpgrp", "getpid", "getppid", "getpriority", "getresgid", "getresuid", "getsid", "gettid",
    "getuid", "pidfd_open", "rseq", "sched_get_priority_max", "sched_get_priority_min",
    "sched_getaffinity", "sched_getattr", "sched_getparam", "sched_getscheduler",
    "sched_setaffinity", "sched_setscheduler", "sched_yield", "set_robust_list", "set_thread_area",
    "set_tid_address", "setgid", "setgroups", "setpgid", "setpriority", "setregid", "setresgid",
    "setresuid", "setreuid", "setsid", "setuid", "vfork", "wait4", "waitid",
    // limits and capabilities, which a program can only lower
    "capget", "capset", "getrlimit", "getrusage", "prlimit64", "seccomp", "setrlimit",
    // signals
    "alarm", "getitimer", "kill", "pause", "restart_syscall", "rt_sigaction", "rt_sigpending",
    "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
    "setitimer", "sigaltstack", "signalfd", "signalfd4", "tgkill", "timer_create", "timer_delete",
    "timer_getoverrun", "timer_gettime", "timer_settime", "tkill",
    // time and the machine
    "clock_getres", "clock_gettime", "clock_nanosleep", "getcpu", "getrandom", "gettimeofday",
    "nanosleep", "sysinfo", "time", "times", "uname"};

// Requests of ioctl: whether a descriptor is a terminal, its size, what can be read, and flags of
// the descriptor. Requests that insert characters into a terminal's input are not among them.
constexpr unsigned long kRequests[] = {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX};

constexpr unsigned long kNamespaceFlags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                                          CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                                          CLONE_NEWCGROUP;

constexpr unsigned long kSharedMemory = MAP_SHARED | MAP_ANONYMOUS;

struct Release {
  void operator()(void* context) const { seccomp_release(context); }
};

// Allows the call where its argument `index`, masked, is `value`.
bool AllowWhere(scmp_filter_ctx context, int call, unsigned index, std::uint64_t mask,
                std::uint64_t value) {
  const scmp_arg_cmp condition{index, SCMP_CMP_MASKED_EQ, mask, value};
  return seccomp_rule_add(context, SCMP_ACT_ALLOW, call, 1, condition) == 0;
}

bool AddRules(scmp_filter_ctx context) {
  for (const char* name : kAllowed) {
    const int number = seccomp_syscall_resolve_name(name);
    // A negative number is a call that this architecture lacks.
    if (number == __NR_SCMP_ERROR ||
        (number >= 0 && seccomp_rule_add(context, SCMP_ACT_ALLOW, number, 0) != 0))
      return false;
  }
  for (const unsigned long request : kRequests) {
    if (!AllowWhere(context, SCMP_SYS(ioctl), 1, 0xffffffffUL, request)) return false;
  }
  // glibc falls back from clone3 to clone, whose flags a filter can examine.
  if (!AllowWhere(context, SCMP_SYS(clone), 0, kNamespaceFlags, 0)) return false;
  // Pages that processes share stay when none of them maps them, where no limit counts them.
  for (const std::uint64_t other : {0, MAP_SHARED, MAP_ANONYMOUS}) {
    if (!AllowWhere(context, SCMP_SYS(mmap), 3, kSharedMemory, other)) return false;
  }
  // A process that asks for no signal at the death of its parent may outlive it.
  const scmp_arg_cmp other_option{0, SCMP_CMP_NE, PR_SET_PDEATHSIG, 0};
  return seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1, other_option) == 0;
}

}  // namespace

Result<OwnedFd> MakeSeccompFilter() {
  // By libseccomp's default, calls of another architecture (32 bit, x32) kill the program.
  const std::unique_ptr<void, Release> context(seccomp_init(SCMP_ACT_ERRNO(ENOSYS)));
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
