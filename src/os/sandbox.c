/* Capabilities with libcap-ng, system calls with libseccomp. The list is what the C library, libuv,
 * libnl, OpenSSL's generator and the rooms os and engine call after the start: reading and watching
 * files, sockets of four families, threads, timers. Files may be mapped executable, as name
 * look-ups load modules; nothing may be writable and executable at once. */
#include "os/sandbox.h"

#include <cap-ng.h>
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static const int allowed[] = {
	/* descriptors */
	SCMP_SYS(read),
	SCMP_SYS(readv),
	SCMP_SYS(pread64),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	SCMP_SYS(pwrite64),
	SCMP_SYS(close),
	SCMP_SYS(lseek),
	SCMP_SYS(fcntl),
	SCMP_SYS(dup),
	SCMP_SYS(dup2),
	SCMP_SYS(dup3),
	SCMP_SYS(pipe2),
	SCMP_SYS(eventfd2),
	SCMP_SYS(ioctl),
	/* files */
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(fstat),
	SCMP_SYS(stat),
	SCMP_SYS(lstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statx),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(getdents64),
	SCMP_SYS(getcwd),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(umask),
	SCMP_SYS(inotify_init1),
	SCMP_SYS(inotify_add_watch),
	SCMP_SYS(inotify_rm_watch),
	/* waiting */
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(select),
	SCMP_SYS(pselect6),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(timerfd_gettime),
	SCMP_SYS(nanosleep),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(restart_syscall),
	/* sockets; socket() itself is below */
	SCMP_SYS(bind),
	SCMP_SYS(connect),
	SCMP_SYS(listen),
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(shutdown),
	SCMP_SYS(sendto),
	SCMP_SYS(sendmsg),
	SCMP_SYS(sendmmsg),
	SCMP_SYS(recvfrom),
	SCMP_SYS(recvmsg),
	SCMP_SYS(recvmmsg),
	/* memory; mmap() and mprotect() are below */
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(brk),
	SCMP_SYS(mlock),
	SCMP_SYS(mlock2),
	SCMP_SYS(munlock),
	SCMP_SYS(membarrier),
	/* threads, signals, the end; clone() is below */
	SCMP_SYS(futex),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(get_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_setaffinity),
	SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_getscheduler),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(tgkill),
	SCMP_SYS(kill),
	SCMP_SYS(wait4),
	SCMP_SYS(waitid),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	/* what it is and what time it is */
	SCMP_SYS(getpid),
	SCMP_SYS(getppid),
	SCMP_SYS(gettid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(capget),
	SCMP_SYS(uname),
	SCMP_SYS(sysinfo),
	SCMP_SYS(getrusage),
	SCMP_SYS(prlimit64),
	SCMP_SYS(getrlimit),
	SCMP_SYS(prctl),
	SCMP_SYS(getrandom),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(times),
};

/* Nothing here has a reason to call these: whoever does is not us any more. */
static const int deadly[] = {
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(bpf),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(userfaultfd),
};

static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

/* mmap() and mprotect() have the protection as their third argument, counted from 0: 2. */
static int allow_memory(scmp_filter_ctx f)
{
	const uint64_t both = PROT_WRITE | PROT_EXEC;
	int r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
		SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

	/* one of the two may be there, or none */
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, both, 0));
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, both, PROT_WRITE));
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, both, PROT_EXEC));
	return r;
}

static int allow_some(scmp_filter_ctx f, bool other_netns)
{
	int r = allow_memory(f);

	for (size_t i = 0; r == 0 && i < sizeof(families) / sizeof(families[0]); i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
			SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
			SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	/* threads, no processes; of clone3() the flags cannot be seen, and the C library then takes
	 * clone() */
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	if (r == 0)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (r == 0 && other_netns)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(setns), 0);
	return r;
}

/* A call that this architecture does not have is none to speak of. */
static int add_all(scmp_filter_ctx f, uint32_t action, const int *call, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int r = call[i] < 0 ? 0 : seccomp_rule_add(f, action, call[i], 0);

		if (r < 0)
			return r;
	}
	return 0;
}

static int filter_calls(bool other_netns)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r;

	if (!f)
		return -ENOMEM;
	r = add_all(f, SCMP_ACT_ALLOW, allowed, sizeof(allowed) / sizeof(allowed[0]));
	if (r == 0)
		r = add_all(f, SCMP_ACT_KILL_PROCESS, deadly, sizeof(deadly) / sizeof(deadly[0]));
	if (r == 0)
		r = allow_some(f, other_netns);
	if (r == 0)
		r = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
	if (r == 0)
		r = seccomp_load(f); /* sets no_new_privs too */
	seccomp_release(f);
	return r;
}

int os_sandbox_refuse_rings(void)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	int r;

	if (!f)
		return -ENOMEM;
	r = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(io_uring_setup), 0);
	if (r == 0)
		r = seccomp_load(f);
	seccomp_release(f);
	return r;
}

/* Of what is needed stays what there is: a user with CAP_NET_ADMIN alone needs no low port. */
static int drop_capabilities(bool other_netns)
{
	const unsigned int needed[] = {CAP_NET_ADMIN, CAP_NET_BIND_SERVICE, CAP_SYS_ADMIN};
	const size_t n = other_netns ? 3 : 2;
	bool had[3], bounds;

	if (capng_get_caps_process() < 0)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		had[i] = capng_have_capability(CAPNG_PERMITTED, needed[i]);
	/* without it the bounding set cannot be changed, which no_new_privs makes no matter */
	bounds = capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP);
	capng_clear(CAPNG_SELECT_ALL);
	for (size_t i = 0; i < n; i++)
		if (had[i] &&
			capng_update(CAPNG_ADD, (capng_type_t)(CAPNG_EFFECTIVE | CAPNG_PERMITTED),
				needed[i]) < 0)
			return -EINVAL;
	return capng_apply(bounds ? CAPNG_SELECT_ALL : CAPNG_SELECT_CAPS) < 0 ? -EPERM : 0;
}

int os_sandbox_enter(const struct os_sandbox_keep *keep, struct buf *error)
{
	int r = drop_capabilities(keep->other_netns);

	if (r < 0) {
		buf_add_str(error, "capabilities cannot be dropped\n");
		return r;
	}
	if (SANITIZED)
		return 0;
	r = filter_calls(keep->other_netns);
	if (r < 0)
		buf_printf(error, "system calls cannot be filtered: %s\n", strerror(-r));
	return r;
}

int os_lock_memory(void)
{
	const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

	/* Without it a later mapping beyond the limit would fail: then only what is there now. */
	if (setrlimit(RLIMIT_MEMLOCK, &all) < 0) {
		int r = -errno;

		(void)mlockall(MCL_CURRENT | MCL_ONFAULT);
		return r;
	}
	return mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0 ? -errno : 0;
}
