package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	orcapb "github.com/cncf/xds/go/xds/data/orca/v3"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// cases runs those of gRPC's interoperability tests that need no TLS and no compression, as
// grpc-go has them; one that fails ends the process. Unary, streams in each direction, both
// directions, deadlines, cancellation, metadata, errors.
func cases(ctx context.Context, client client) error {
	type run = func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)
	all := []struct {
		name string
		run  run
	}{
		{"empty_unary", interop.DoEmptyUnaryCall},
		{"large_unary", interop.DoLargeUnaryCall},
		{"client_streaming", interop.DoClientStreaming},
		{"server_streaming", interop.DoServerStreaming},
		{"ping_pong", interop.DoPingPong},
		{"empty_stream", interop.DoEmptyStream},
		{"cancel_after_begin", interop.DoCancelAfterBegin},
		{"cancel_after_first_response", interop.DoCancelAfterFirstResponse},
		{"status_code_and_message", interop.DoStatusCodeAndMessage},
		{"special_status_message", interop.DoSpecialStatusMessage},
		{"custom_metadata", interop.DoCustomMetadata},
	}
	for _, one := range all {
		one.run(ctx, client)
		report("passed", one.name)
	}
	if err := timeoutOnSleepingServer(ctx, client); err != nil {
		return err
	}
	report("passed", "timeout_on_sleeping_server")
	interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(client))
	report("passed", "unimplemented_service")
	// Deviation: with messages, which grpc-go's own DoUnimplementedMethod does not have.
	empty := new(testpb.Empty)
	err := client.Invoke(ctx, "/grpc.testing.TestService/UnimplementedCall", empty, empty)
	if status.Code(err) != codes.Unimplemented {
		return failure("unimplemented_method: %v", err)
	}
	report("passed", "unimplemented_method")
	return nil
}

// timeoutOnSleepingServer has a deadline of a millisecond. Deviation: grpc-go's own
// DoTimeoutOnSleepingServer does not know that a server may say at once that it could not answer in
// time. It must be DEADLINE_EXCEEDED, or a refusal that names its stage.
func timeoutOnSleepingServer(ctx context.Context, client client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	stream, err := client.FullDuplexCall(ctx)
	if err == nil {
		_ = stream.Send(new(testpb.StreamingOutputCallRequest))
		_, err = stream.Recv()
	}
	code := status.Code(err)
	refused := stream != nil && code == codes.Unavailable &&
		strings.Contains(strings.Join(stream.Trailer().Get("seawall"), ","), "stage=")
	if code != codes.DeadlineExceeded && !refused {
		return failure("timeout_on_sleeping_server: %v", err)
	}
	return nil
}

// load makes calls, so many at once, and counts what became of them.
func load(
	ctx context.Context, client client, calls, workers int, method, field string,
) error {
	counts, next := newSeen(), make(chan struct{}, calls)
	for range calls {
		next <- struct{}{}
	}
	close(next)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range next {
				counts.add(client.unary(ctx, method, field))
			}
		})
	}
	all.Wait()
	counts.report("")
	return nil
}

// deadline makes calls whose deadline passes: at once by the field, so that it is the server that
// says so; and before the answer, by grpc-timeout. And one call asks for a report of load.
func deadline(ctx context.Context, client client) error {
	made := client.unary(ctx, "UnaryCall", "deadline=0")
	if made.code != codes.DeadlineExceeded {
		return failure("a call whose deadline has passed got %v", made.code)
	}
	told := strings.Join(made.trailer.Get("seawall"), ",")
	if len(made.attempts) != 1 || made.attempts[0].hasPushback ||
		strings.Contains(told, "retry-after") {
		return failure("a call whose deadline has passed was told to come back")
	}

	short, cancelShort := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancelShort()
	pause := int32(10 * time.Second / time.Microsecond)
	slow := &testpb.StreamingOutputCallRequest{
		ResponseParameters: []*testpb.ResponseParameters{{Size: 1, IntervalUs: pause}},
	}
	stream, err := client.StreamingOutputCall(short, slow)
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		return failure("a call that was not answered in time got %v", err)
	}

	asks := metadata.AppendToOutgoingContext(ctx, "endpoint-load-metrics-format", "text")
	named, err := loadReport(client.unary(asks, "UnaryCall", ""))
	if err != nil {
		return err
	}
	for _, name := range named {
		report("load_report", name)
	}
	return nil
}

// loadReport gives the names of what a report of load (ORCA) in the trailers has measured.
func loadReport(made *call) ([]string, error) {
	names := []string{}
	for _, value := range made.trailer.Get("endpoint-load-metrics-bin") {
		var orca orcapb.OrcaLoadReport
		if err := proto.Unmarshal([]byte(value), &orca); err != nil {
			return nil, failure("a report of load that is none, %q: %v", value, err)
		}
		for name := range orca.NamedMetrics {
			names = append(names, name)
		}
	}
	return names, nil
}
