package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// retries tells grpc-go to send again what is UNAVAILABLE, after a millisecond: who waits longer
// does so because the server has asked for it (gRFC A6, "pushback").
const retries = `{"methodConfig": [{
	"name": [{"service": "grpc.testing.TestService"}],
	"retryPolicy": {
		"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
		"backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]
	}
}]}`

// backoff is more than grpc-go waits by itself: 1.2 times the above.
const backoff = 2 * time.Millisecond

// waited is what calls that were retried say of the times between their attempts.
type waited struct {
	*seen
	// Calls that were refused first, and served later.
	recovered int
	// Times between attempts that were longer than grpc-go's own, and the longest and the shortest
	// hint of these.
	waits             int
	shortest, longest time.Duration
}

// retry makes calls under overload, by a client that retries as it is told, and checks that it
// waited for as long as it was told. The overload ends after a while, so that retries are served.
func retry(ctx context.Context, crowd client, address string, calls, workers int) error {
	polite, err := dial(address, retries)
	if err != nil {
		return err
	}
	defer polite.Close()

	busy := newSeen()
	stop, refused := make(chan struct{}), make(chan struct{}, 1)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { keepBusy(ctx, crowd, busy, stop, refused) })
	}
	select {
	case <-refused:
	case <-ctx.Done():
		return failure("nobody was refused: %d callers are no overload", workers)
	}

	result := waited{seen: newSeen()}
	made := make([]*call, calls)
	var callers sync.WaitGroup
	for i := range made {
		callers.Go(func() { made[i] = polite.unary(ctx, "UnaryCall", "") })
	}
	time.Sleep(time.Second)
	close(stop)
	callers.Wait()
	all.Wait()
	for _, one := range made {
		result.add(one)
		if err := result.examine(one); err != nil {
			return err
		}
	}
	busy.report("crowd.")
	result.report("")
	report("recovered", result.recovered)
	report("waits", result.waits)
	report("shortest_ms", result.shortest.Milliseconds())
	report("longest_ms", result.longest.Milliseconds())
	return nil
}

// keepBusy calls again and again; it pauses when it is refused, or refusals would be all there is.
func keepBusy(
	ctx context.Context, client client, counts *seen, stop chan struct{}, refused chan struct{},
) {
	for {
		made := client.unary(ctx, "UnaryCall", "")
		counts.add(made)
		if made.code == codes.Unavailable {
			select {
			case refused <- struct{}{}:
			default:
			}
		}
		pause := time.Duration(0)
		if made.code != codes.OK {
			pause = 100 * time.Millisecond
		}
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
	}
}

// examine looks at the attempts of one call.
func (w *waited) examine(made *call) error {
	for i, next := range made.attempts {
		if i == 0 {
			continue
		}
		before := made.attempts[i-1]
		if before.code != codes.Unavailable || next.transparent {
			return failure("attempt %d came after %v", i, before.code)
		}
		if !before.hasPushback {
			return failure("a refusal without grpc-retry-pushback-ms was retried")
		}
		// A timer never fires early.
		pause := next.began.Sub(before.answered)
		if pause < before.pushback {
			return failure("told to wait %v, grpc-go came back after %v", before.pushback, pause)
		}
		if before.pushback > backoff {
			w.longest = max(w.longest, before.pushback)
			if w.waits == 0 || before.pushback < w.shortest {
				w.shortest = before.pushback
			}
			w.waits++
		}
	}
	if n := len(made.attempts); made.code == codes.OK && n > 1 {
		w.recovered++
		if made.previous != strconv.Itoa(n-1) {
			return failure("of attempt %d the server was told %q", n, made.previous)
		}
	}
	return nil
}
