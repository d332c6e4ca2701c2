/* Answers calls for a server that waits for a CPU (LIBROS, section IV-A): in the receive path of
 * its connections, before it is woken.
 *
 *   parse:  where does the next piece of the stream end, and what becomes of it?
 *   judge:  on to the server, back to the client as a refusal, or nowhere
 *
 * A piece is a frame, what has come of one, or, of a call that is refused, its header, which
 * becomes the refusal's header in place. The end of a piece is never beyond the bytes that have
 * come, so that large frames do not fill the receive buffer, and the parser waits for nothing but
 * the rest of a header.
 *
 * What passes is handed to the socket's own queue as if it came from elsewhere (BPF_F_INGRESS): the
 * short way (SK_PASS) loses count of what was read, and stalls (seen with Linux 6.18). */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are read in place");

#define CONNECTIONS_MAX 65536
#define THREADS_MAX 4096
/* Bytes of a piece: no receive buffer is smaller, unless it was asked for. */
#define PIECE_MAX 65536

/* A thread that was woken gets a CPU within 0.1 ms where one is free; who waits for longer than
 * that is starved (ns). */
#define LOOK 250000ull

/* Of the kernel's interface to user space. */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_SOCKHASH = 18 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_INGRESS = 1 };
enum sk_action { SK_DROP, SK_PASS };

struct __sk_buff {
	__u32 len;
};

struct sk_buff;
extern void *bpf_cast_to_kern_ctx(void *) __ksym;

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	atomic64_t skc_cookie;
} FROM_KERNEL;

struct sock {
	struct sock_common __sk_common;
	int sk_sndbuf;
	int sk_wmem_queued;
} FROM_KERNEL;

struct sk_buff {
	struct sock *sk;
	char cb[48];
} FROM_KERNEL;

/* Where a piece of a stream is within its buffer. */
struct strp_msg {
	int full_len;
	int offset;
} FROM_KERNEL;

struct _strp_msg {
	struct strp_msg strp;
} FROM_KERNEL;

struct sk_skb_cb {
	struct _strp_msg strp;
} FROM_KERNEL;

/* Headers of the native protocol: WIRE.md. */
#define HEADER 64
#define REQUEST 0x51525753u  /* "SWRQ" */
#define RESPONSE 0x53525753u /* "SWRS" */
#define VERSION 1
#define STAGE_CPU 7

enum { OP_CALL = 1, OP_REPLY = 1, STATUS_REJECTED = 1 };
enum { DROPPABLE = 1, HAS_DEADLINE = 2, HAS_BUDGET = 4 };

struct request {
	__u32 magic;
	__u8 version, op;
	__u16 flags;
	__u32 body_len;
	__u16 method;
	__u8 priority, attempt;
	__u64 id;
	__u32 demand, budget_us, deadline_us;
	__u16 upscale_hops, path;
	__u64 sent_at_ns, start_time_ns;
	__u32 tenant, window_ack;
};

struct response {
	__u32 magic;
	__u8 version, op, status, stage;
	__u32 body_len;
	__u16 flags, level;
	__u64 id;
	__u32 window, window_seq, predicted_delay_us, queue_delay_us, retry_after_us, service_us;
	__u64 sent_at_ns, reserved;
};

_Static_assert(sizeof(struct request) == HEADER, "as in WIRE.md");
_Static_assert(sizeof(struct response) == HEADER, "as in WIRE.md");

enum fate { PASS, BOUNCE, DROP };

/* What the kernel knows of a connection. User space only reads it. */
struct connection {
	__u64 refused;      /* calls */
	__u64 passed_at;    /* when the newest piece came that went on to the server (ns) */
	__u32 left;         /* bytes of the current frame behind the current piece */
	__u32 fate;         /* of the current piece */
	__u32 predicted_us; /* of a call that is refused */
	__u32 registered;   /* the server has seen a call */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CONNECTIONS_MAX);
	__type(key, __u64);
	__type(value, struct connection);
} connections SEC(".maps");

/* Whether the server holds a connection. Only user space writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CONNECTIONS_MAX);
	__type(key, __u64);
	__type(value, __u32);
} holds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, CONNECTIONS_MAX);
	__type(key, __u64);
	__type(value, __u64);
} sockets SEC(".maps");

/* States of the threads that run handlers. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, THREADS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} threads SEC(".maps");

enum { UNKNOWN, RUNNING, WAITING, ASLEEP };

/* How many of them there are of each kind, and since when. */
__u32 running;
__u32 waiting;
__u64 ran_at;
__u64 woke_at;
/* What they have waited lately, as a moving average (ns). */
__u64 episodes;
/* Calls that were refused on all connections. */
__u64 refused;

static __u64 starved_since(void)
{
	return ran_at > woke_at ? ran_at : woke_at;
}

static void become(__u32 *state, __u32 new)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 old = *state;

	if (old == new)
		return;
	*state = new;
	if (old == RUNNING) {
		ran_at = now;
		__sync_fetch_and_sub(&running, 1);
	}
	if (new == WAITING && __sync_fetch_and_add(&waiting, 1) == 0)
		woke_at = now;
	if (new == RUNNING && __sync_fetch_and_add(&running, 1) == 0 && old == WAITING) {
		__u64 waited = now - starved_since();

		if (waited > LOOK)
			episodes = episodes ? episodes - episodes / 4 + waited / 4 : waited;
	}
	if (old == WAITING)
		__sync_fetch_and_sub(&waiting, 1);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	__u32 from = prev->pid, to = next->pid;
	__u32 *state = bpf_map_lookup_elem(&threads, &from);

	if (state)
		become(state, preempted || prev->__state == 0 ? WAITING : ASLEEP);
	state = bpf_map_lookup_elem(&threads, &to);
	if (state)
		become(state, RUNNING);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	__u32 tid = task->pid;
	__u32 *state = bpf_map_lookup_elem(&threads, &tid);

	if (state && *state == ASLEEP)
		become(state, WAITING);
	return 0;
}

/* The thread that calls runs handlers. */
SEC("syscall")
int enlist(void *unused)
{
	__u32 tid = bpf_get_current_pid_tgid(), state = UNKNOWN;

	return bpf_map_update_elem(&threads, &tid, &state, BPF_ANY) ? 1 : 0;
}

/* How much longer the server waits for a CPU (ns); 0 if it has one, or does not want one. As
 * seawall_control::predict::starvation::Episodes does. */
static __u64 predict(__u64 now)
{
	__u64 since = starved_since(), age = now - since;

	if (running || !waiting || now < since + LOOK)
		return 0;
	return episodes > 2 * age ? episodes - age : age;
}

/* The server may be about to write, or in the middle of a frame, unless this is false after the
 * refusal was counted: it holds first and reads the count then. */
static bool is_held(__u64 cookie)
{
	__u32 *held = bpf_map_lookup_elem(&holds, &cookie);

	return !held || *held;
}

static __u32 fate_of(struct connection *connection, __u64 cookie, struct sk_buff *kernel,
		     const struct request *call, __u64 now)
{
	__u64 left_us = ~0ull, predicted_us;

	if (call->op != OP_CALL)
		return PASS;
	/* The first registers the session at the server. */
	if (!connection->registered) {
		connection->registered = 1;
		return PASS;
	}
	if (call->flags & HAS_DEADLINE)
		left_us = call->deadline_us;
	if (call->flags & HAS_BUDGET && call->budget_us < left_us)
		left_us = call->budget_us;
	predicted_us = predict(now) / 1000;
	if (!(call->flags & DROPPABLE) || predicted_us <= left_us)
		return PASS;
	/* A client that does not read is the server's affair. */
	if (2 * (__s64)BPF_CORE_READ(kernel, sk, sk_wmem_queued) > BPF_CORE_READ(kernel, sk, sk_sndbuf))
		return PASS;
	__sync_fetch_and_add(&connection->refused, 1);
	if (is_held(cookie)) {
		__sync_fetch_and_sub(&connection->refused, 1);
		return PASS;
	}
	connection->predicted_us = predicted_us > 0xffffffff ? 0xffffffff : predicted_us;
	return BOUNCE;
}

/* The connection that bytes came on, and where they begin in their buffer. */
static struct connection *find(struct sk_buff *kernel, __u64 *cookie, __u32 *offset)
{
	struct sk_skb_cb *cb = (void *)kernel->cb;

	*cookie = BPF_CORE_READ(kernel, sk, __sk_common.skc_cookie.counter);
	*offset = BPF_CORE_READ(cb, strp.strp.offset);
	return bpf_map_lookup_elem(&connections, cookie);
}

SEC("sk_skb/stream_parser")
int parse(struct __sk_buff *buffer)
{
	struct sk_buff *kernel = bpf_cast_to_kern_ctx(buffer);
	struct request call;
	__u64 cookie, frame, now;
	__u32 offset, come, piece;
	struct connection *connection = find(kernel, &cookie, &offset);

	come = buffer->len - offset;
	if (come > PIECE_MAX)
		come = PIECE_MAX;
	if (!connection)
		return come;
	now = bpf_ktime_get_ns();
	if (connection->left) {
		if (connection->fate == BOUNCE)
			connection->fate = DROP;
		piece = come < connection->left ? come : connection->left;
		connection->left -= piece;
		goto done;
	}
	connection->fate = PASS;
	if (come < HEADER) {
		if (come < 4 || (bpf_skb_load_bytes(buffer, offset, &call, 4) == 0 &&
				 call.magic == REQUEST))
			return 0;
		return come; /* nonsense, which the server answers */
	}
	if (bpf_skb_load_bytes(buffer, offset, &call, HEADER) || call.magic != REQUEST ||
	    call.version != VERSION)
		return come;
	connection->fate = fate_of(connection, cookie, kernel, &call, now);
	frame = HEADER + (__u64)call.body_len;
	if (connection->fate == BOUNCE)
		piece = HEADER;
	else
		piece = come < frame ? come : frame;
	connection->left = frame - piece;
done:
	if (connection->fate == PASS)
		connection->passed_at = now;
	return piece;
}

/* Makes a refusal of a call's header. */
static int refuse(struct __sk_buff *buffer, __u32 offset, const struct connection *connection)
{
	struct request call;
	struct response refusal = {
		.magic = RESPONSE,
		.version = VERSION,
		.op = OP_REPLY,
		.status = STATUS_REJECTED,
		.stage = STAGE_CPU,
		.predicted_delay_us = connection->predicted_us,
		.retry_after_us = connection->predicted_us,
	};

	/* A header that is not in one piece would be sent in pieces, and others between them. */
	if (bpf_skb_pull_data(buffer, offset + HEADER) ||
	    bpf_skb_load_bytes(buffer, offset, &call, HEADER))
		return -1;
	refusal.id = call.id;
	refusal.sent_at_ns = call.sent_at_ns;
	return bpf_skb_store_bytes(buffer, offset, &refusal, HEADER, 0);
}

SEC("sk_skb/stream_verdict")
int judge(struct __sk_buff *buffer)
{
	struct sk_buff *kernel = bpf_cast_to_kern_ctx(buffer);
	__u64 cookie;
	__u32 offset;
	struct connection *connection = find(kernel, &cookie, &offset);

	if (connection && connection->fate == DROP)
		return SK_DROP;
	if (connection && connection->fate == BOUNCE) {
		if (refuse(buffer, offset, connection) == 0) {
			__sync_fetch_and_add(&refused, 1);
			return bpf_sk_redirect_hash(buffer, &sockets, &cookie, 0);
		}
		/* There is no memory. */
		__sync_fetch_and_sub(&connection->refused, 1);
		connection->fate = PASS;
	}
	return bpf_sk_redirect_hash(buffer, &sockets, &cookie, BPF_F_INGRESS);
}
