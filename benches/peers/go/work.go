package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// errInjected is the failure of a request that has nothing to do with load.
var errInjected = errors.New("injected error")

// Shape of the calibration: the fastest of so many runs of so many steps, which noise cannot make
// faster.
const (
	calibrations = 40
	chunk        = 200_000
)

// work is what a request does once it is admitted.
type work struct {
	kind   string
	errors float64
	hold   time.Duration
	// Steps of the loop that take the CPU time of a request.
	steps int
	// The lock that hot requests need.
	hot sync.Mutex
}

func newWork(o options) (*work, error) {
	w := &work{kind: o.work, errors: o.errors, hold: o.hold}
	switch o.work {
	case "idle", "lock", "mix":
	case "cpu":
		w.steps = steps(o.burn)
	default:
		return nil, fmt.Errorf("-work is %q; allowed: idle, cpu, lock, mix", o.work)
	}
	return w, nil
}

// do serves one request. What is hot cannot be told from a path alone: a body that begins with h
// is hot, too.
func (w *work) do(path string, body []byte) error {
	if w.errors > 0 && rand.Float64() < w.errors {
		return errInjected
	}
	switch {
	case w.kind == "cpu":
		spin(w.steps)
	case w.kind == "lock", w.kind == "mix" && isHot(path, body):
		w.hot.Lock()
		time.Sleep(w.hold)
		w.hot.Unlock()
	case w.kind == "mix":
		time.Sleep(w.hold)
	}
	return nil
}

func isHot(path string, body []byte) bool {
	return path == "hot" || len(body) > 0 && body[0] == 'h'
}

// sink keeps the compiler from leaving the loop out.
var sink uint64

// spin spends CPU time: a loop that needs no memory.
func spin(steps int) {
	x := uint64(steps) | 1
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink = x
}

// steps are those of spin that take this long on an idle core.
func steps(burn time.Duration) int {
	fastest := time.Duration(1 << 62)
	for range calibrations {
		begin := time.Now()
		spin(chunk)
		fastest = min(fastest, time.Since(begin))
	}
	return int(float64(chunk) * float64(burn) / float64(fastest))
}
