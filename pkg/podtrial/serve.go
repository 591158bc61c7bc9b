// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package podtrial

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxMessage limits how long a request or an answer may be.
	maxMessage = 1024
	// maxServed limits how many connections are served at the same time.
	maxServed = 256
	// serveTimeout limits how long a connection is served. Those of others may not use up all of them.
	serveTimeout = 5 * time.Second
	// acceptDelay is the time after an error, such as too many open files.
	acceptDelay = 100 * time.Millisecond
)

// A request is a line with a number and a signature. Its answer is a line with the same number, the identity
// of the server, and a signature. What is not signed with the key of the run is not answered: a server that
// answers anybody over UDP could be used against others. The key itself is not sent: the address may belong
// to something else, which could answer with it, such as a service that a member exports under the same name.
func request(key string, number uint64) string {
	return fmt.Sprintf("%d %s\n", number, sign(key, requestText(number)))
}

func requestText(number uint64) string { return fmt.Sprintf("request %d", number) }

func sign(key, text string) string {
	code := hmac.New(sha256.New, []byte(key))
	code.Write([]byte(text))
	return hex.EncodeToString(code.Sum(nil))
}

func isSigned(signature, key, text string) bool {
	return hmac.Equal([]byte(signature), []byte(sign(key, text)))
}

// answer is what a server sends.
type answer struct {
	Identity
	Number    uint64 `json:"number"`
	Signature string `json:"signature"`
}

// signed returns what is signed of an answer.
func (a *answer) signed() string { return fmt.Sprintf("answer %d %q %q", a.Number, a.Cluster, a.Pod) }

// answerTo returns the answer to a request, nil if it gets none.
func answerTo(text, key string, identity Identity) []byte {
	number, signature, _ := strings.Cut(strings.TrimSpace(text), " ")
	parsed, err := strconv.ParseUint(number, 10, 64)
	if err != nil || !isSigned(signature, key, requestText(parsed)) {
		return nil
	}
	response := answer{Identity: identity, Number: parsed}
	response.Signature = sign(key, response.signed())
	encoded, err := json.Marshal(response)
	if err != nil {
		return nil
	}
	return append(encoded, '\n')
}

// Serve answers requests over TCP and UDP until the context ends. It listens over UDP first: a server
// that accepts connections answers both.
func Serve(ctx context.Context, address, key string, identity Identity) error {
	if key == "" || identity.Cluster == "" {
		return errors.New("a server requires a key and a cluster")
	}
	var listen net.ListenConfig
	packets, err := listen.ListenPacket(ctx, "udp", address)
	if err != nil {
		return err
	}
	defer func() { _ = packets.Close() }()
	listener, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer listener.Close()
	defer context.AfterFunc(ctx, func() {
		_, _ = listener.Close(), packets.Close() // ends what follows
	})()
	var group sync.WaitGroup
	group.Go(func() { serveDatagrams(ctx, packets, key, identity) })
	serveConnections(ctx, listener, key, identity, &group)
	group.Wait()
	return ctx.Err()
}

func serveDatagrams(ctx context.Context, packets net.PacketConn, key string, identity Identity) {
	buffer := make([]byte, maxMessage)
	for {
		n, from, err := packets.ReadFrom(buffer)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			pause(ctx, acceptDelay)
			continue
		}
		if response := answerTo(string(buffer[:n]), key, identity); response != nil {
			_, _ = packets.WriteTo(response, from) // the client repeats its request
		}
	}
}

func serveConnections(ctx context.Context, listener net.Listener, key string, identity Identity, group *sync.WaitGroup) {
	slots := make(chan struct{}, maxServed)
	for {
		connection, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				connection.Close()
			}
			return
		}
		if err != nil {
			pause(ctx, acceptDelay)
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			defer connection.Close()
			defer context.AfterFunc(ctx, func() { connection.Close() })()
			serveConnection(connection, key, identity)
		})
	}
}

// serveConnection answers the requests of a connection, one after another.
func serveConnection(connection net.Conn, key string, identity Identity) {
	if connection.SetDeadline(time.Now().Add(serveTimeout)) != nil {
		return
	}
	lines := bufio.NewScanner(io.LimitReader(connection, 64*maxMessage))
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		response := answerTo(lines.Text(), key, identity)
		if response == nil {
			return
		}
		if _, err := connection.Write(response); err != nil {
			return
		}
	}
}

// pause waits for a while, or until the context ends.
func pause(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
