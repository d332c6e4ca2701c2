package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestHotIsAPathOrABody(t *testing.T) {
	for _, hot := range []struct{ path, body string }{{"hot", ""}, {"hot", "c"}, {"work", "h1"}} {
		if !isHot(hot.path, []byte(hot.body)) {
			t.Errorf("%v is hot", hot)
		}
	}
	for _, cold := range []struct{ path, body string }{{"cold", ""}, {"work", "c1"}, {"work", ""}} {
		if isHot(cold.path, []byte(cold.body)) {
			t.Errorf("%v is cold", cold)
		}
	}
}

func TestNonsenseIsRefusedByName(t *testing.T) {
	for _, o := range []options{
		{errors: 2},
		{work: "sleep", peer: "none", proto: "http", listen: "127.0.0.1:0"},
		{work: "idle", peer: "sentinel", proto: "http", listen: "127.0.0.1:0"},
		{work: "idle", peer: "none", proto: "quic", listen: "127.0.0.1:0"},
	} {
		if err := run(o); err == nil || !strings.Contains(err.Error(), "allowed: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Every limiter lets a request through when there is no load, and errors are told from refusals.
func TestEveryPeerServes(t *testing.T) {
	for _, peer := range []string{"none", "failsafe", "gozero", "aegis"} {
		for _, tuned := range []bool{false, true} {
			for share, want := range map[float64]int{0: 200, 1: 500} {
				if got := ask(t, peer, tuned, share); got != want {
					t.Errorf("%s, tuned %v, errors %v: %d, want %d", peer, tuned, share, got, want)
				}
			}
		}
	}
}

func ask(t *testing.T, peer string, tuned bool, errors float64) int {
	t.Helper()
	work, err := newWork(options{work: "mix", errors: errors})
	if err != nil {
		t.Fatal(err)
	}
	limit, err := newLimiters(peer, tuned)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() { _ = serveHTTP(listener, work, limit) }()
	url := "http://" + listener.Addr().String() + "/work"
	response, err := http.Post(url, "text/plain", strings.NewReader("h1"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}
