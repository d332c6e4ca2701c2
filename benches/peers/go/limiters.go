package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/go-kratos/aegis/ratelimit"
	"github.com/go-kratos/aegis/ratelimit/bbr"
	"github.com/zeromicro/go-zero/core/load"
	"github.com/zeromicro/go-zero/core/logx"
	"github.com/zeromicro/go-zero/core/stat"
	"github.com/zeromicro/go-zero/rest/handler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Settings of an informed user, who knows the SLO of 100 ms, that a request takes 2 ms, and that
// two cores were counted where the server has one.
const (
	// Requests that one core or one lock can serve within four fifths of the SLO.
	tunedLimit = 40
	// One busy core of two is 500 per mille; the shedder is to act a little before.
	tunedCPU = 400
)

// limiters are those of one peer, one for each path if they are tuned.
type limiters struct {
	http map[string]func(http.Handler) http.Handler
	grpc map[string]grpc.UnaryServerInterceptor
}

// newLimiters makes one limiter for all requests, as the peers' documentation has it, or, tuned,
// one for each path.
func newLimiters(peer string, tuned bool) (*limiters, error) {
	logx.Disable()
	load.DisableLog()
	all := &limiters{
		http: map[string]func(http.Handler) http.Handler{},
		grpc: map[string]grpc.UnaryServerInterceptor{},
	}
	shared, interceptor, err := newLimiter(peer, tuned)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		all.http[path], all.grpc[path] = shared, interceptor
		if tuned {
			all.http[path], all.grpc[path], err = newLimiter(peer, tuned)
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func newLimiter(peer string, tuned bool) (
	func(http.Handler) http.Handler, grpc.UnaryServerInterceptor, error,
) {
	switch peer {
	case "none":
		return func(inner http.Handler) http.Handler { return inner }, direct, nil
	case "failsafe":
		h, g := failsafeLimiter(tuned)
		return h, g, nil
	case "gozero":
		h, g := gozeroLimiter(tuned)
		return h, g, nil
	case "aegis":
		h, g := aegisLimiter(tuned)
		return h, g, nil
	}
	return nil, nil, fmt.Errorf("-peer is %q; allowed: none, failsafe, gozero, aegis", peer)
}

func direct(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (
	any, error,
) {
	return next(ctx, request)
}

// failsafeLimiter is failsafe-go's adaptive limiter, through its own handler and interceptor.
func failsafeLimiter(tuned bool) (
	func(http.Handler) http.Handler, grpc.UnaryServerInterceptor,
) {
	web := adaptivelimiter.NewBuilder[*http.Response]()
	rpc := adaptivelimiter.NewBuilder[*wrapperspb.BytesValue]()
	if tuned {
		web = web.WithLimits(1, tunedLimit, tunedLimit/2)
		rpc = rpc.WithLimits(1, tunedLimit, tunedLimit/2)
	}
	limiter := web.Build()
	wrap := func(inner http.Handler) http.Handler { return failsafehttp.NewHandler(inner, limiter) }
	return wrap, failsafegrpc.NewUnaryServerInterceptor(rpc.Build())
}

// gozeroLimiter is go-zero's adaptive shedder: its own HTTP middleware, and what its interceptor,
// which is internal, does for gRPC.
func gozeroLimiter(tuned bool) (func(http.Handler) http.Handler, grpc.UnaryServerInterceptor) {
	var settings []load.ShedderOption
	if tuned {
		settings = append(settings, load.WithCpuThreshold(tunedCPU))
	}
	shedder := load.NewAdaptiveShedder(settings...)
	interceptor := func(
		ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
	) (any, error) {
		promise, err := shedder.Allow()
		if err != nil {
			return nil, status.Error(codes.ResourceExhausted, err.Error())
		}
		reply, err := next(ctx, request)
		if ctx.Err() != nil {
			promise.Fail()
		} else {
			promise.Pass()
		}
		return reply, err
	}
	return handler.SheddingHandler(shedder, stat.NewMetrics("peers")), interceptor
}

// aegisLimiter is aegis' BBR, as kratos' middleware uses it.
func aegisLimiter(tuned bool) (func(http.Handler) http.Handler, grpc.UnaryServerInterceptor) {
	var settings []bbr.Option
	if tuned {
		settings = append(settings, bbr.WithCPUThreshold(tunedCPU))
	}
	limiter := bbr.NewLimiter(settings...)
	wrap := func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			done, err := limiter.Allow()
			if err != nil {
				http.Error(w, err.Error(), http.StatusTooManyRequests)
				return
			}
			inner.ServeHTTP(w, r)
			done(ratelimit.DoneInfo{})
		})
	}
	interceptor := func(
		ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
	) (any, error) {
		done, err := limiter.Allow()
		if err != nil {
			return nil, status.Error(codes.ResourceExhausted, err.Error())
		}
		reply, err := next(ctx, request)
		done(ratelimit.DoneInfo{Err: err})
		return reply, err
	}
	return wrap, interceptor
}
