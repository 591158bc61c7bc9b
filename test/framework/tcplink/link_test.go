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
	// patience is how long something may take that is going to happen.
	patience = time.Minute
	// moment is how long to look for something that must not happen.
	moment = 50 * time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo starts a server that says what it hears, and a link to it.
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

func say(t *testing.T, connection net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(connection, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, connection net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(connection, got); err != nil || string(got) != want {
		t.Fatalf("heard %q (%v), want %q", got, err, want)
	}
}

func hearNothing(t *testing.T, connection net.Conn) {
	t.Helper()
	if err := connection.SetReadDeadline(time.Now().Add(moment)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1)
	if n, err := connection.Read(got); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q (%v), want nothing and an open connection", got[:n], err)
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

func TestWholeLinkForwardsAndCounts(t *testing.T) {
	link := echo(t)
	text := strings.Repeat("0123456789", 100_000)
	connection := dial(t, link)
	go func() {
		_, _ = io.WriteString(connection, text)
		_ = connection.CloseWrite()
	}()
	got, err := io.ReadAll(connection)
	if err != nil || string(got) != text {
		t.Fatalf("%d bytes came back (%v), want the same %d", len(got), err, len(text))
	}
	if link.Sent() != int64(len(text)) || link.Received() != int64(len(text)) {
		t.Errorf("counted %d and %d bytes, want %d each", link.Sent(), link.Received(), len(text))
	}
}

func TestCutResetsConnectionsAndRefusesNewOnes(t *testing.T) {
	link := echo(t)
	before := dial(t, link)
	say(t, before, "a")
	hear(t, before, "a")
	if link.Open() != 1 {
		t.Errorf("%d connections are open, want 1", link.Open())
	}
	link.Cut()
	if _, err := before.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection ended with %v, want it reset", err)
	}
	if connection, err := net.Dial("tcp", link.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			connection.Close()
		}
		t.Errorf("a new connection got %v, want it refused", err)
	}
	if link.Open() != 0 {
		t.Errorf("%d connections are open, want none", link.Open())
	}
	restore(t, link)
	after := dial(t, link)
	say(t, after, "b")
	hear(t, after, "b")
}

func TestHangHoldsBackEverythingUntilRestored(t *testing.T) {
	link := echo(t)
	before := dial(t, link)
	say(t, before, "a")
	hear(t, before, "a")
	if err := link.Hang(); err != nil {
		t.Fatal(err)
	}
	say(t, before, "b")
	hearNothing(t, before)
	during := dial(t, link)
	say(t, during, "c")
	hearNothing(t, during)
	if link.Sent() != 1 || link.Received() != 1 {
		t.Errorf("%d and %d bytes were forwarded, want 1 each", link.Sent(), link.Received())
	}
	restore(t, link)
	hear(t, before, "b")
	hear(t, during, "c")
}

// Who goes away while the link hangs is missed only when it does no longer.
func TestHangHoldsBackTheEndOfAConnection(t *testing.T) {
	link := echo(t)
	connection := dial(t, link)
	say(t, connection, "a")
	hear(t, connection, "a")
	if err := link.Hang(); err != nil {
		t.Fatal(err)
	}
	if err := connection.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	hearNothing(t, connection)
	restore(t, link)
	if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
}

func TestStatesFollowEachOtherInAnyOrder(t *testing.T) {
	link := echo(t)
	if err := link.Hang(); err != nil {
		t.Fatal(err)
	}
	hung := dial(t, link)
	say(t, hung, "a")
	link.Cut()
	link.Cut()
	if _, err := hung.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a hanging connection was cut and got %v, want it reset", err)
	}
	for range 2 {
		if err := link.Hang(); err != nil {
			t.Fatal(err)
		}
	}
	again := dial(t, link)
	say(t, again, "b")
	hearNothing(t, again)
	restore(t, link)
	restore(t, link)
	hear(t, again, "b")
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
	if err := link.Hang(); err != nil { // so that connecting is not too late
		t.Fatal(err)
	}
	connection := dial(t, link)
	restore(t, link)
	if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want the connection reset", err)
	}
}

func TestCloseEndsEverythingForGood(t *testing.T) {
	link := echo(t)
	connection := dial(t, link)
	if err := link.Hang(); err != nil {
		t.Fatal(err)
	}
	say(t, connection, "a")
	link.Close()
	if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want the connection reset", err)
	}
	if link.Restore() == nil || link.Hang() == nil {
		t.Error("a closed link works again")
	}
}
