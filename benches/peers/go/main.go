// Command peers serves one workload behind one limiter, over HTTP/1.1 or gRPC, on one core.
//
// It prints one line of JSON with its address when it listens, and ends with its standard input.
// The limiters are those that Go services use: failsafe-go, go-zero's shedder, aegis' BBR.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// options are those of one server.
type options struct {
	peer   string
	tuned  bool
	work   string
	proto  string
	listen string
	hold   time.Duration
	burn   time.Duration
	errors float64
}

func main() {
	var o options
	flag.StringVar(&o.peer, "peer", "none", "limiter: none, failsafe, gozero or aegis")
	flag.BoolVar(&o.tuned, "tuned", false, "set the limiter as an informed user would")
	flag.StringVar(&o.work, "work", "idle", "what a request does: idle, cpu, lock or mix")
	flag.StringVar(&o.proto, "proto", "http", "protocol: http or grpc")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:0", "address to listen at")
	flag.DurationVar(&o.hold, "hold", 2*time.Millisecond, "time for which the lock is held")
	flag.DurationVar(&o.burn, "burn", 2*time.Millisecond, "CPU time of a request")
	flag.Float64Var(&o.errors, "errors", 0, "share of the requests that fail, 0 to 1")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.errors < 0 || o.errors > 1 {
		return fmt.Errorf("-errors is %v; allowed: 0 to 1", o.errors)
	}
	runtime.GOMAXPROCS(1)
	work, err := newWork(o)
	if err != nil {
		return err
	}
	limit, err := newLimiters(o.peer, o.tuned)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	switch o.proto {
	case "http":
		go func() { failed <- serveHTTP(listener, work, limit) }()
	case "grpc":
		go func() { failed <- serveGRPC(listener, work, limit) }()
	default:
		return fmt.Errorf("-proto is %q; allowed: http, grpc", o.proto)
	}
	ready := map[string]any{"address": listener.Addr().String(), "versions": versions()}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		return err
	}
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	return <-failed
}

// versions are those of the limiters in this program, as it was built.
func versions() map[string]string {
	found := map[string]string{"go": runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	for _, module := range info.Deps {
		switch module.Path {
		case "github.com/failsafe-go/failsafe-go", "github.com/go-kratos/aegis",
			"github.com/zeromicro/go-zero", "google.golang.org/grpc":
			found[module.Path] = module.Version
		}
	}
	return found
}
