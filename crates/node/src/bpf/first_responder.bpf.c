/* Watches the requests that come to the services of this node, and raises those that are late
 * (SurgeGuard, section IV-A, FirstResponder).
 *
 *   a packet ─► to a port of ours? ─► a call? ─► slack < 0? ─► path not frozen? ─► boost
 *
 * It runs for every packet of the machine, before the packet's way is decided, and leaves as early
 * as it can. It changes no packet and drops none. */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are read in place");

/* Services of this node; seawall_node::responder::SERVICES_MAX. */
#define SERVICES_MAX 4096
/* Containers that one decision raises: the late one and those downstream of it. */
#define RAISED_MAX 16
/* Paths are two bytes on the wire, so that each has its own place. */
#define PATHS_MAX 65536
#define PORTS_MAX 65536
/* Decisions that wait for the agent's worker: 64 bytes each and 8 of the kernel's. */
#define EVENTS_BYTES (256 * 1024)
/* The longest name of a Thrift method that is read. */
#define NAME_MAX 255

/* Of the kernel's interface to user space: these numbers never change. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_F_MMAPABLE = 1 << 10 };
#define ETH_P_IP 0x0800
#define ETH_P_8021Q 0x8100
#define ETH_P_IPV6 0x86DD
#define IPPROTO_TCP 6
enum { false, true };

/* To see whether the kernel has this helper, which came with Linux 6.1. */
enum bpf_func_id { BPF_FUNC_ktime_get_tai_ns = 208 };

struct sk_buff {
	unsigned int len, data_len;
	__be16 protocol;
	unsigned char *data;
} FROM_KERNEL;

struct bpf_dynptr {
	__u64 opaque[2];
} __attribute__((aligned(8)));

/* Allowed here since Linux 6.12. It reaches what is not in a packet's first buffer. */
extern int bpf_dynptr_from_skb(struct sk_buff *skb, __u64 flags, struct bpf_dynptr *to) __ksym
	__weak;

/* Since Linux 6.2: reads without a call, and zeros where nothing is. */
extern void *bpf_rdonly_cast(const void *at, __u32 type) __ksym __weak;

enum protocol { NATIVE, THRIFT };

/* What user space says of a service. */
struct service {
	__u64 expected_ns; /* from the start of a job until its request comes here */
	__u32 protocol;
	__u32 raised;			/* how many of these there are, 1 at least */
	__u16 slots[RAISED_MAX];	/* itself, then those downstream of it on this node */
};

struct service services[SERVICES_MAX];

/* By the port that a packet goes to: 0 if it is not ours, else the service's slot and 1. */
__u32 ports[PORTS_MAX];
/* Ask `addresses`: services of several addresses share the port. */
#define BY_ADDRESS 0x80000000u

struct address {
	__u32 ip[4]; /* IPv4 as ::ffff:a.b.c.d */
	__be16 port;
	__u16 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SERVICES_MAX);
	__type(key, struct address);
	__type(value, __u32);
} addresses SEC(".maps");

struct path {
	__u64 window_ns;    /* how long it is frozen after a decision; 0 as `window_ns` below */
	__u64 frozen_until; /* on the monotonic clock */
};

struct path paths[PATHS_MAX];

/* Since when all requests of a service that could be judged were late (monotonic; 0: not). */
__u64 late_since[SERVICES_MAX];

/* Since when it is each one's turn to be boosted, on the monotonic clock; 0: never. */
__u64 turns[SERVICES_MAX];

/* Until when each is boosted, on the monotonic clock. Read by whoever runs the service. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SERVICES_MAX);
	__type(key, __u32);
	__type(value, __u64);
} boosts SEC(".maps");

/* A decision, for boosts that a program in the kernel cannot carry out itself. */
struct late {
	__u64 at_ns, until_ns; /* monotonic */
	__u64 late_by_ns;
	__u16 path;
	__u16 raised;
	__u16 slots[RAISED_MAX];
	__u32 zero;
};

/* So that its type is known outside. */
struct late late_unused;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EVENTS_BYTES);
} events SEC(".maps");

struct counters {
	__u64 packets;	   /* with data, to a port of ours */
	__u64 requests;	   /* calls whose header was read */
	__u64 in_time;
	__u64 boosts;	   /* decisions */
	__u64 frozen;	   /* late, but a decision for the path was made a moment ago */
	__u64 disbelieved; /* late, but so was everything for too long */
	__u64 spent;	   /* late, but all have been boosted for long enough */
	__u64 no_start, future, stale;
	__u64 other;	   /* no request begins there */
	__u64 cut;	   /* a request begins, but its header is not whole */
	__u64 unreachable; /* the data is where this kernel does not let a program look */
	__u64 dropped;	   /* decisions that the worker's queue had no place for */
};

struct counters counters_unused;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

/* Of user space. */
__u64 window_ns;
__u64 boost_ns;
__u64 age_max_ns;
__u64 late_max_ns;
__u64 boosted_max_ns;
/* What CLOCK_TAI is ahead of CLOCK_REALTIME; without CLOCK_TAI, CLOCK_MONOTONIC instead. */
__s64 clock_ahead_ns;
/* Whether somebody reads `events`. */
__u32 is_worker_there;
struct request {
	__u64 start_ns;
	__u16 path;
	__u16 zero[3];
};

/* A packet from its network header on. */
struct packet {
	struct sk_buff *skb;
	struct bpf_dynptr data;
};

static __always_inline bool reaches_all(void)
{
	return bpf_ksym_exists(bpf_dynptr_from_skb);
}

/* Whether this much lies in the packet's first buffer, as headers do when they come here. */
static __always_inline bool is_linear(struct packet *packet, __u32 offset, __u32 len)
{
	return offset + len <= packet->skb->len - packet->skb->data_len;
}

/* Copies what lies in the packet's first buffer, and elsewhere where the kernel lets it. */
static __always_inline bool load(struct packet *packet, __u32 offset, void *to, __u32 len)
{
	struct sk_buff *skb = packet->skb;

	if (is_linear(packet, offset, len))
		return bpf_probe_read_kernel(to, len, skb->data + offset) == 0;
	if (!reaches_all() || bpf_dynptr_from_skb(skb, 0, &packet->data))
		return false;
	return bpf_dynptr_read(to, len, &packet->data, offset, 0) == 0;
}

/* The time that senders put into requests: CLOCK_REALTIME. CLOCK_TAI is stepped together with it,
 * so that only leap seconds have to be told from outside. */
static __always_inline __u64 realtime(void)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_ktime_get_tai_ns))
		return bpf_ktime_get_tai_ns() - clock_ahead_ns;
	return bpf_ktime_get_ns() - clock_ahead_ns;
}

/* Whether user space has to follow CLOCK_TAI or CLOCK_MONOTONIC. */
SEC("syscall")
int reads_tai(void *unused)
{
	return bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_ktime_get_tai_ns);
}

/* As on the wire. Where they lie in these structures never changes. */
struct iphdr {
	__u8 version_words, tos;
	__be16 len, id, fragment;
	__u8 ttl, protocol;
	__be16 check;
	__u32 source, dest;
};

struct ipv6hdr {
	__be32 flow;
	__be16 len;
	__u8 next, hops;
	__u32 source[4], dest[4];
};

struct tcphdr {
	__be16 source, dest;
	__be32 seq, ack;
	__u8 data_offset; /* in its upper half, in words */
	__u8 flags;
};

/* Shorter packets hold no request: acknowledgements, above all. */
#define DATA_MIN 31

/* A header in place, or a copy of it in `copy` where the kernel does not let a program look there;
 * 0 if there is none. Only one of the two is ever there for the verifier to see. */
#define HEADER(packet, at, type, copy) \
	(!is_linear(packet, at, sizeof(struct type)) ? 0 : \
	 bpf_ksym_exists(bpf_rdonly_cast) ? \
		 (struct type *)bpf_rdonly_cast((packet)->skb->data + (at), \
						bpf_core_type_id_kernel(struct type)) : \
	 load(packet, at, copy, sizeof(struct type)) ? (copy) : 0)

static __always_inline __u32 found_at(struct packet *packet, __u32 found, __be16 port, __u32 at,
				      bool is_v6)
{
	struct address address = { .port = port };
	__u32 *slot;

	if (!(found & BY_ADDRESS))
		return found;
	address.ip[2] = bpf_htonl(0xffff);
	if (is_v6 ? !load(packet, at, address.ip, 16) : !load(packet, at, &address.ip[3], 4))
		return 0;
	slot = bpf_map_lookup_elem(&addresses, &address);
	return slot ? *slot + 1 : found & ~BY_ADDRESS;
}

/* The slot and 1 of the service that a packet goes to, 0 if it is not ours, and where the data
 * begin. */
static __always_inline __u32 find(struct packet *packet, __u32 *at, __u32 tcp_at, __u32 ip_at,
				  bool is_v6)
{
	struct tcphdr copy, *tcp = HEADER(packet, tcp_at, tcphdr, &copy);
	__be16 port;
	__u32 found;

	if (!tcp)
		return 0;
	port = tcp->dest;
	found = ports[bpf_ntohs(port)];
	if (!found)
		return 0;
	*at = tcp_at + 4 * (tcp->data_offset >> 4);
	return found_at(packet, found, port, ip_at, is_v6);
}

static __always_inline __u32 find_v4(struct packet *packet, __u32 *at)
{
	struct iphdr copy, *ip;

	if (packet->skb->len < *at + 40 + DATA_MIN)
		return 0;
	ip = HEADER(packet, *at, iphdr, &copy);
	if (!ip || ip->protocol != IPPROTO_TCP || ip->fragment & bpf_htons(0x3fff))
		return 0;
	return find(packet, at, *at + 4 * (ip->version_words & 15), *at + 16, false);
}

static __always_inline __u32 find_v6(struct packet *packet, __u32 *at)
{
	struct ipv6hdr copy, *ip;

	if (packet->skb->len < *at + 60 + DATA_MIN)
		return 0;
	ip = HEADER(packet, *at, ipv6hdr, &copy);
	if (!ip || ip->next != IPPROTO_TCP)
		return 0;
	return find(packet, at, *at + 40, *at + 24, true);
}

/* The native header: WIRE.md. */
#define MAGIC 0x51525753u /* "SWRQ" */
enum { VERSION = 1, OP_CALL = 1 };

struct native {
	__u32 magic;
	__u8 version, op;
	__u16 flags;
	__u8 of_no_interest[30];
	__u16 path;
	__u64 sent_at_ns;
	__u64 start_time_ns;
};

_Static_assert(__builtin_offsetof(struct native, path) == 38, "as in WIRE.md");
_Static_assert(__builtin_offsetof(struct native, start_time_ns) == 48, "as in WIRE.md");


static __always_inline bool read_native(struct packet *packet, __u32 at, struct request *request,
					struct counters *count)
{
	struct native head;

	if (packet->skb->len < at + sizeof(head)) {
		count->cut++;
		return false;
	}
	if (!load(packet, at, &head, sizeof(head))) {
		count->unreachable++;
		return false;
	}
	if (head.magic != MAGIC || head.version != VERSION || head.op != OP_CALL) {
		count->other++;
		return false;
	}
	request->start_ns = head.start_time_ns;
	request->path = head.path;
	return true;
}

/* Thrift's framed transport with the strict binary protocol, big-endian, and the leading arguments
 * of the paper's applications: the path (i8) as field 1 and the job's start (i64) as field 2. */
enum { T_CALL = 1, T_ONEWAY = 4, T_BYTE = 3, T_I64 = 10 };

struct thrift {
	__be32 frame_len;
	__be16 version;
	__u8 zero, type;
	__be32 name_len;
};

struct arguments {
	__u8 type_1, id_1[2], flow;
	__u8 type_2, id_2[2], start[8];
};

static __always_inline bool read_thrift(struct packet *packet, __u32 at, struct request *request,
					struct counters *count)
{
	struct arguments args;
	struct thrift head;
	__u32 name, len = packet->skb->len;

	if (!load(packet, at, &head, sizeof(head))) {
		if (len < at + sizeof(head))
			count->cut++;
		else
			count->unreachable++;
		return false;
	}
	name = bpf_ntohl(head.name_len);
	if (head.version != bpf_htons(0x8001) || name > NAME_MAX ||
	    (head.type != T_CALL && head.type != T_ONEWAY)) {
		count->other++;
		return false;
	}
	/* Behind the name stands the sequence number. */
	at += sizeof(head) + name + 4;
	if (len < at + sizeof(args)) {
		count->cut++;
		return false;
	}
	if (!load(packet, at, &args, sizeof(args))) {
		count->unreachable++;
		return false;
	}
	if (args.type_1 != T_BYTE || args.id_1[0] || args.id_1[1] != 1 || args.type_2 != T_I64 ||
	    args.id_2[0] || args.id_2[1] != 2) {
		count->other++;
		return false;
	}
	request->path = args.flow;
	request->start_ns = 0;
	for (int i = 0; i < 8; i++)
		request->start_ns = request->start_ns << 8 | args.start[i];
	return true;
}

/* Until when a service may be boosted that wants to be until then; 0 if it has had its share: a turn
 * begins with a boost, lasts for `boosted_max_ns`, and as long again nothing follows. So of any time
 * twice as long, it is boosted for half at most. The same as `responder::Turn` of seawall_control. */
static __always_inline __u64 granted(__u32 slot, __u64 now, __u64 until)
{
	__u64 began = turns[slot], end;

	/* Another CPU may have read its clock after this one. */
	if (!began || (__s64)(now - began) >= (__s64)(2 * boosted_max_ns))
		turns[slot] = began = now;
	end = began + boosted_max_ns;
	if (now >= end)
		return 0;
	return until < end ? until : end;
}

/* Raises a service, and those downstream of it on this node. */
static __always_inline void boost(struct service *service, __u16 number, __u64 now, __u64 late_by,
				  struct counters *count)
{
	__u64 until = now + boost_ns;
	__u16 slots[RAISED_MAX] = {};
	__u32 raised = 0;
	struct late *late;

	for (int i = 0; i < RAISED_MAX && i < service->raised; i++) {
		__u32 slot = service->slots[i];
		__u64 end, *word = bpf_map_lookup_elem(&boosts, &slot);

		if (!word || slot >= SERVICES_MAX)
			continue;
		end = granted(slot, now, now + boost_ns);
		if (!end)
			continue;
		*(volatile __u64 *)word = end;
		/* The worker ends all together, with the first. */
		if (end < until)
			until = end;
		slots[raised & (RAISED_MAX - 1)] = slot;
		raised++;
	}
	if (!raised) {
		count->spent++;
		return;
	}
	count->boosts++;
	if (!is_worker_there)
		return;
	late = bpf_ringbuf_reserve(&events, sizeof(*late), 0);
	if (!late) {
		count->dropped++;
		return;
	}
	late->at_ns = now;
	late->until_ns = until;
	late->late_by_ns = late_by;
	late->path = number;
	late->raised = raised;
	__builtin_memcpy(late->slots, slots, sizeof(late->slots));
	late->zero = 0;
	bpf_ringbuf_submit(late, 0);
}

/* A request that is late (SurgeGuard, equation 4: slack < 0). */
static __always_inline void on_late(__u32 slot, __u16 number, __u64 late_by, __u64 now,
				    struct counters *count)
{
	struct path *path = &paths[number];
	__u64 until, window;

	/* Clocks that disagree make everything late, for ever; a surge is shorter. */
	if (!late_since[slot])
		late_since[slot] = now;
	/* Another CPU may have read its clock after this one. */
	if ((__s64)(now - late_since[slot]) > (__s64)late_max_ns) {
		count->disbelieved++;
		return;
	}
	until = *(volatile __u64 *)&path->frozen_until;
	window = path->window_ns ? path->window_ns : window_ns;
	/* Of those that come at the same time on several CPUs, one decides. */
	if (now < until ||
	    __sync_val_compare_and_swap(&path->frozen_until, until, now + window) != until) {
		count->frozen++;
		return;
	}
	boost(&services[slot], number, now, late_by, count);
}

/* What is judged without a packet, at which times: to compare the arithmetic with others'. */
struct rehearsal {
	struct request request;
	__u64 real, monotonic;
	__u32 slot;
	__u32 zero;
};

struct rehearsal rehearsal_unused;

static __always_inline void judge(__u32 slot, const struct request *request,
				  struct counters *count, const struct rehearsal *rehearsed)
{
	__u64 now = rehearsed ? rehearsed->real : realtime();
	__u64 expected = services[slot].expected_ns;
	__u64 passed = now - request->start_ns;

	count->requests++;
	if (!request->start_ns) {
		count->no_start++;
	} else if (request->start_ns > now) {
		count->future++;
	} else if (passed > age_max_ns) {
		count->stale++;
	} else if (passed > expected) {
		now = rehearsed ? rehearsed->monotonic : bpf_ktime_get_ns();
		on_late(slot, request->path, passed - expected, now, count);
	} else {
		count->in_time++;
		if (late_since[slot])
			late_since[slot] = 0;
	}
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(on_packet, struct sk_buff *skb)
{
	struct packet packet = { .skb = skb };
	struct counters *count;
	struct request request = {};
	__be16 protocol = skb->protocol;
	__u32 at = 0, zero = 0, slot;
	bool is_read;

	/* A tag that the device has left in place. */
	if (protocol == bpf_htons(ETH_P_8021Q)) {
		if (!load(&packet, 2, &protocol, sizeof(protocol)))
			return 0;
		at = 4;
	}
	if (protocol == bpf_htons(ETH_P_IP))
		slot = find_v4(&packet, &at) - 1;
	else if (protocol == bpf_htons(ETH_P_IPV6))
		slot = find_v6(&packet, &at) - 1;
	else
		return 0;
	if (slot >= SERVICES_MAX || skb->len <= at)
		return 0;
	count = bpf_map_lookup_elem(&counters, &zero);
	if (!count)
		return 0;
	count->packets++;
	if (services[slot].protocol == THRIFT)
		is_read = read_thrift(&packet, at, &request, count);
	else
		is_read = read_native(&packet, at, &request, count);
	if (is_read)
		judge(slot, &request, count, 0);
	return 0;
}

SEC("syscall")
int rehearse(struct rehearsal *rehearsal)
{
	struct rehearsal it = *rehearsal;
	__u32 zero = 0;
	struct counters *count = bpf_map_lookup_elem(&counters, &zero);

	if (!count || it.slot >= SERVICES_MAX)
		return 1;
	judge(it.slot, &it.request, count, &it);
	return 0;
}
