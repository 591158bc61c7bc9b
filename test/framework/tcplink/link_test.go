// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package tcplink

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	// patience is how long an expected event may take.
	patience = time.Minute
	// moment is how long to wait for an event that must not happen.
	moment = 50 * time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo starts an echo server and a link to it.
func echo(t *testing.T) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_, _ = io.Copy(connection, connection)
			}()
		}
	}()
	link, err := New("127.0.0.1:0", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		link.Close()
		listener.Close()
		<-ended
	})
	return link
}

func dial(t *testing.T, link *Link) *net.TCPConn {
	t.Helper()
	connection, err := net.Dial("tcp", link.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return connection.(*net.TCPConn)
}

func send(t *testing.T, connection net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(connection, text); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, connection net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(connection, got); err != nil || string(got) != want {
		t.Fatalf("received %q (%v), want %q", got, err, want)
	}
}

func receiveNothing(t *testing.T, connection net.Conn) {
	t.Helper()
	if err := connection.SetReadDeadline(time.Now().Add(moment)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1)
	if n, err := connection.Read(got); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("received %q (%v), want nothing and an open connection", got[:n], err)
	}
	if err := connection.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
}

func restore(t *testing.T, link *Link) {
	t.Helper()
	if err := link.Restore(); err != nil {
		t.Fatal(err)
	}
}

func TestLinkForwardsAndCounts(t *testing.T) {
	link := echo(t)
	text := strings.Repeat("0123456789", 100_000)
	connection := dial(t, link)
	go func() {
		_, _ = io.WriteString(connection, text)
		_ = connection.CloseWrite()
	}()
	got, err := io.ReadAll(connection)
	if err != nil || string(got) != text {
		t.Fatalf("received %d bytes (%v), want the same %d bytes that were sent", len(got), err, len(text))
	}
	if link.Sent() != int64(len(text)) || link.Received() != int64(len(text)) {
		t.Errorf("counted %d and %d bytes, want %d each", link.Sent(), link.Received(), len(text))
	}
}

func TestCutResetsConnectionsAndRefusesNewOnes(t *testing.T) {
	link := echo(t)
	before := dial(t, link)
	send(t, before, "a")
	receive(t, before, "a")
	if link.Open() != 1 {
		t.Errorf("%d connections are open, want 1", link.Open())
	}
	link.Cut()
	if _, err := before.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("connection: got %v, want connection reset", err)
	}
	if connection, err := net.Dial("tcp", link.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			connection.Close()
		}
		t.Errorf("new connection: got %v, want connection refused", err)
	}
	if link.Open() != 0 {
		t.Errorf("%d connections are open, want 0", link.Open())
	}
	restore(t, link)
	after := dial(t, link)
	send(t, after, "b")
	receive(t, after, "b")
}

func TestHangHoldsBackEverythingUntilRestored(t *testing.T) {
	link := echo(t)
	before := dial(t, link)
	send(t, before, "a")
	receive(t, before, "a")
	if err := link.Hang(); err != nil {
		t.Fatal(err)
	}
	send(t, before, "b")
	receiveNothing(t, before)
	during := dial(t, link)
	send(t, during, "c")
	receiveNothing(t, during)
	if link.Sent() != 1 || link.Received() != 1 {
		t.Errorf("%d and %d bytes were forwarded, want 1 each", link.Sent(), link.Received())
	}
	restore(t, link)
	receive(t, before, "b")
	receive(t, during, "c")
}

// A connection that is closed while the link hangs is closed at the other end
// after Restore.
func TestHangHoldsBackTheEndOfAConnection(t *testing.T) {
	link := echo(t)
	connection := dial(t, link)
	send(t, connection, "a")
	receive(t, connection, "a")
	if err := link.Hang(); err != nil {
		t.Fatal(err)
	}
	if err := connection.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	receiveNothing(t, connection)
	restore(t, link)
	if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end of input", err)
	}
}

func TestStatesFollowEachOtherInAnyOrder(t *testing.T) {
	link := echo(t)
	if err := link.Hang(); err != nil {
		t.Fatal(err)
	}
	hung := dial(t, link)
	send(t, hung, "a")
	link.Cut()
	link.Cut()
	if _, err := hung.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("hanging connection after Cut: got %v, want connection reset", err)
	}
	for range 2 {
		if err := link.Hang(); err != nil {
			t.Fatal(err)
		}
	}
	again := dial(t, link)
	send(t, again, "b")
	receiveNothing(t, again)
	restore(t, link)
	restore(t, link)
	receive(t, again, "b")
}

func TestUnreachableTargetEndsTheConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	link, err := New("127.0.0.1:0", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	if err := link.Hang(); err != nil { // so that the connection is accepted before the target is dialed
		t.Fatal(err)
	}
	connection := dial(t, link)
	restore(t, link)
	if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want connection reset", err)
	}
}

func TestCloseIsPermanent(t *testing.T) {
	link := echo(t)
	connection := dial(t, link)
	if err := link.Hang(); err != nil {
		t.Fatal(err)
	}
	send(t, connection, "a")
	link.Close()
	if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want connection reset", err)
	}
	if link.Restore() == nil || link.Hang() == nil {
		t.Error("a closed link was reopened")
	}
}
