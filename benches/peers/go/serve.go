package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// service is the name of the gRPC service; its methods take and give google.protobuf.BytesValue.
const service = "peers.Work"

// paths are what a request may ask for: of HTTP the path, of gRPC the method.
var paths = []string{"work", "hot", "cold"}

// serveHTTP serves the paths over HTTP/1.1.
func serveHTTP(listener net.Listener, w *work, limit *limiters) error {
	mux := http.NewServeMux()
	for _, path := range paths {
		inner := http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
			body, err := io.ReadAll(in.Body)
			if err != nil {
				http.Error(out, err.Error(), http.StatusBadRequest)
				return
			}
			if err := w.do(path, body); err != nil {
				http.Error(out, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(out, "done\n")
		})
		mux.Handle("/"+path, limit.http[path](inner))
	}
	server := &http.Server{Handler: mux}
	return server.Serve(listener)
}

// serveGRPC serves the same as methods of one service.
func serveGRPC(listener net.Listener, w *work, limit *limiters) error {
	server := grpc.NewServer(grpc.UnaryInterceptor(limit.intercept))
	description := grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil)}
	for _, path := range paths {
		name := strings.ToUpper(path[:1]) + path[1:]
		method := grpc.MethodDesc{MethodName: name, Handler: w.handler(path)}
		description.Methods = append(description.Methods, method)
	}
	server.RegisterService(&description, w)
	return server.Serve(listener)
}

// intercept applies the limiter of the method that is called.
func (l *limiters) intercept(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	path := strings.ToLower(info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:])
	return l.grpc[path](ctx, request, info, next)
}

// handler is what generated code would have for one method.
func (w *work) handler(path string) grpc.MethodHandler {
	return func(
		_ any, ctx context.Context, decode func(any) error, through grpc.UnaryServerInterceptor,
	) (any, error) {
		request := new(wrapperspb.BytesValue)
		if err := decode(request); err != nil {
			return nil, err
		}
		serve := func(_ context.Context, request any) (any, error) {
			body := request.(*wrapperspb.BytesValue).GetValue()
			if err := w.do(path, body); err != nil {
				return nil, status.Error(codes.Internal, err.Error())
			}
			return wrapperspb.Bytes([]byte("done\n")), nil
		}
		name := strings.ToUpper(path[:1]) + path[1:]
		info := &grpc.UnaryServerInfo{FullMethod: "/" + service + "/" + name}
		return through(ctx, request, info, serve)
	}
}
