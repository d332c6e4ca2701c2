package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop"
	"google.golang.org/grpc/metadata"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// What a service can do: so many requests at once, each for so long, 200 in a second.
const (
	places = 4
	hold   = 20 * time.Millisecond
)

// headAttempts tells a client which attempt the server has seen.
const headAttempts = "x-previous-attempts"

// capacity is what requests wait for, for as long as it takes.
type capacity chan struct{}

func (c capacity) work(ctx context.Context) error {
	select {
	case c <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c }()
	select {
	case <-time.After(hold):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve serves HTTP/1.1 and gRPC, each at an address of its own and with places of its own.
func serve() error {
	ends := make(chan error, 3)
	listen := func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	web, err := listen()
	if err != nil {
		return err
	}
	calls, err := listen()
	if err != nil {
		return err
	}
	go func() { ends <- http.Serve(web, website(make(capacity, places))) }()
	go func() { ends <- service(make(capacity, places)).Serve(calls) }()
	ready := map[string]string{"http": web.Addr().String(), "grpc": calls.Addr().String()}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		return err
	}
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ends <- err
	}()
	return <-ends
}

// website is the same in HTTP as crates/tower/examples/interop.
func website(places capacity) http.Handler {
	var gone atomic.Int64
	mux := http.NewServeMux()
	work := func(out http.ResponseWriter, in *http.Request) {
		if places.work(in.Context()) == nil {
			_, _ = io.WriteString(out, "done\n")
		}
	}
	mux.HandleFunc("/work", work)
	mux.HandleFunc("/must", work)
	mux.HandleFunc("/echo", func(out http.ResponseWriter, in *http.Request) {
		_ = http.NewResponseController(out).EnableFullDuplex()
		_, _ = io.Copy(out, in.Body)
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, in *http.Request) {
		<-in.Context().Done()
		gone.Add(1)
	})
	mux.HandleFunc("/endless", func(out http.ResponseWriter, in *http.Request) {
		chunk := make([]byte, 1<<16)
		for {
			if _, err := out.Write(chunk); err != nil {
				gone.Add(1)
				return
			}
		}
	})
	// How many have gone away from the two above.
	mux.HandleFunc("/gone", func(out http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(out, gone.Load())
	})
	return mux
}

// tested is the service of gRPC's own tests, whose unary calls take a place.
type tested struct {
	testgrpc.TestServiceServer
	places capacity
}

func (t tested) UnaryCall(
	ctx context.Context, in *testpb.SimpleRequest,
) (*testpb.SimpleResponse, error) {
	told := metadata.ValueFromIncomingContext(ctx, "grpc-previous-rpc-attempts")
	if len(told) > 0 {
		_ = grpc.SetHeader(ctx, metadata.Pairs(headAttempts, told[0]))
	}
	if err := t.places.work(ctx); err != nil {
		return nil, err
	}
	return t.TestServiceServer.UnaryCall(ctx, in)
}

func (t tested) CacheableUnaryCall(
	ctx context.Context, in *testpb.SimpleRequest,
) (*testpb.SimpleResponse, error) {
	return t.UnaryCall(ctx, in)
}

func service(places capacity) *grpc.Server {
	server := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(server, tested{interop.NewTestServer(), places})
	return server
}
