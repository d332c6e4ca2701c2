// Command interop-http is what scripts/interop-http drives Seawall with that is written in Go: an
// upstream for the proxy, and clients that are stock grpc-go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// patience is how long anything may take on a slow machine.
const patience = 60 * time.Second

const usage = `usage: interop-http COMMAND [OPTION...]

  serve                  an HTTP/1.1 and a gRPC service, until standard input ends
  cases ADDRESS          the test cases that all implementations of gRPC have in common
  load ADDRESS           calls, and what became of them
  retry ADDRESS          calls under overload, which are retried when the server says so
  deadline ADDRESS       calls that nobody waits for
`

// failure is a check that did not hold.
func failure(format string, values ...any) error {
	return fmt.Errorf(format, values...)
}

// report prints what a client saw, one number in each line, for the script to compare.
func report(name string, number any) {
	fmt.Println(name, number)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "interop-http:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	command, args := args[0], args[1:]
	if command == "serve" {
		return serve()
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return failure("%s: say which ADDRESS", command)
	}
	address, args := args[0], args[1:]
	flags := flag.NewFlagSet(command, flag.ExitOnError)
	calls := flags.Int("calls", 100, "how many calls")
	workers := flags.Int("workers", 1, "how many of them at once")
	method := flags.String("method", "UnaryCall", "method: UnaryCall or CacheableUnaryCall")
	field := flags.String("field", "", "the field seawall of each call")
	_ = flags.Parse(args)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := dial(address, "")
	if err != nil {
		return err
	}
	defer client.Close()
	switch command {
	case "cases":
		return cases(ctx, client)
	case "load":
		return load(ctx, client, *calls, *workers, *method, *field)
	case "retry":
		return retry(ctx, client, address, *calls, *workers)
	case "deadline":
		return deadline(ctx, client)
	}
	return failure("unknown command %q; allowed: serve, cases, load, retry, deadline", command)
}
