package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// attempt is one try of a call, as grpc-go tells of it.
type attempt struct {
	began    time.Time
	answered time.Time
	// What the server's refusal said, and whether it did.
	pushback    time.Duration
	hasPushback bool
	code        codes.Code
	// It never reached a server.
	transparent bool
}

// call is what became of one call.
type call struct {
	mu       sync.Mutex
	attempts []*attempt
	// What the server says that it was told of earlier attempts, and what the caller got.
	previous string
	trailer  metadata.MD
	code     codes.Code
}

type callKey struct{}
type attemptKey struct{}

// recorder is told by grpc-go of each attempt.
type recorder struct{}

func (recorder) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return ctx
	}
	a := new(attempt)
	c.mu.Lock()
	c.attempts = append(c.attempts, a)
	c.mu.Unlock()
	return context.WithValue(ctx, attemptKey{}, a)
}

func (recorder) HandleRPC(ctx context.Context, fact stats.RPCStats) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return
	}
	c := ctx.Value(callKey{}).(*call)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch fact := fact.(type) {
	case *stats.Begin:
		a.began = time.Now()
		a.transparent = fact.IsTransparentRetryAttempt
	case *stats.InTrailer:
		a.answered = time.Now()
		if values := fact.Trailer.Get("grpc-retry-pushback-ms"); len(values) == 1 {
			if ms, err := strconv.Atoi(values[0]); err == nil {
				a.pushback, a.hasPushback = time.Duration(ms)*time.Millisecond, true
			}
		}
	case *stats.End:
		a.code = status.Code(fact.Error)
	}
}

func (recorder) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (recorder) HandleConn(context.Context, stats.ConnStats)                       {}

// client is a connection, and calls over it.
type client struct {
	*grpc.ClientConn
	testgrpc.TestServiceClient
}

func (c client) Close() { _ = c.ClientConn.Close() }

// dial connects without TLS; serviceConfig may be empty.
func dial(address, serviceConfig string) (client, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(recorder{}),
	}
	if serviceConfig != "" {
		options = append(options, grpc.WithDefaultServiceConfig(serviceConfig))
	}
	connection, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return client{}, err
	}
	return client{connection, testgrpc.NewTestServiceClient(connection)}, nil
}

// unary makes one call of a method of SimpleRequest.
func (c client) unary(ctx context.Context, method, field string) *call {
	made := new(call)
	ctx = context.WithValue(ctx, callKey{}, made)
	if field != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "seawall", field)
	}
	var header metadata.MD
	err := c.Invoke(ctx, "/grpc.testing.TestService/"+method, new(testpb.SimpleRequest),
		new(testpb.SimpleResponse), grpc.Header(&header), grpc.Trailer(&made.trailer))
	made.code = status.Code(err)
	made.correct()
	if values := header.Get(headAttempts); len(values) == 1 {
		made.previous = values[0]
	}
	return made
}

// correct puts right what grpc-go does not tell: an attempt that was refused before all of the
// request was sent ends without an error there.
func (c *call) correct() {
	last := len(c.attempts) - 1
	for i, a := range c.attempts {
		if a.code == codes.OK && i == last {
			a.code = c.code
		} else if a.code == codes.OK {
			a.code = codes.Unavailable // the only one that is retried
		}
	}
}

// seen counts what became of calls, by the names of the codes.
type seen struct {
	mu       sync.Mutex
	calls    map[codes.Code]int
	attempts map[codes.Code]int
	// Attempts that were told when to come back.
	pushbacks int
	// Attempts that never reached a server.
	unsent int
}

func newSeen() *seen {
	return &seen{calls: map[codes.Code]int{}, attempts: map[codes.Code]int{}}
}

func (s *seen) add(made *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[made.code]++
	for i, a := range made.attempts {
		if i+1 < len(made.attempts) && made.attempts[i+1].transparent {
			s.unsent++
			continue
		}
		s.attempts[a.code]++
		if a.hasPushback {
			s.pushbacks++
		}
	}
}

func (s *seen) report(prefix string) {
	for code, number := range s.calls {
		report(prefix+"call."+code.String(), number)
	}
	for code, number := range s.attempts {
		report(prefix+"attempt."+code.String(), number)
	}
	report(prefix+"pushbacks", s.pushbacks)
	report(prefix+"unsent", s.unsent)
}
