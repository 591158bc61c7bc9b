// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package patience

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// server is a server that is away until a time.
type server struct {
	until time.Time
	// away is the status of its responses meanwhile. Without one, connections are refused.
	away int
	// tokens are those of all requests.
	tokens []string
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(request *http.Request) (*http.Response, error) {
	s.tokens = append(s.tokens, request.Header.Get("Authorization"))
	status := http.StatusOK
	if time.Now().Before(s.until) {
		status = s.away
	}
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: status, Body: http.NoBody}, nil
}

// itself returns the HTTP client that clients would use.
func itself(_ *rest.Config, client *http.Client) (*http.Client, error) { return client, nil }

// client returns a client for the server, and what it has reported.
func (s *server) client(t *testing.T, config rest.Config) (client *http.Client, reported *[]error) {
	t.Helper()
	config.Host, config.Transport = "https://host", s
	reported = &[]error{}
	client, err := NewForConfig(&config, func(err error) { *reported = append(*reported, err) }, itself)
	if err != nil {
		t.Fatal(err)
	}
	return client, reported
}

func get(ctx context.Context, client *http.Client) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://host/services", nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// R511: however long and often a server was away, it is noticed soon that it is back. It is known
// at once why it is away.
func TestServerThatIsBackIsNoticed(t *testing.T) {
	for name, test := range map[string]struct {
		away     int
		reported string
	}{
		"refused": {0, "connection refused"}, "unavailable": {http.StatusServiceUnavailable, "GET https://host/services: 503 Service Unavailable"},
		"proxy without it": {http.StatusBadGateway, "502 Bad Gateway"}, "cannot verify tokens": {http.StatusUnauthorized, "401 Unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const outage = 10 * time.Minute
				s := &server{away: test.away}
				client, reported := s.client(t, rest.Config{})
				for range 20 {
					s.until = time.Now().Add(outage)
					before := len(s.tokens)
					status, err := get(t.Context(), client)
					if late := time.Since(s.until); status != http.StatusOK || err != nil || late < 0 || late > 6*time.Second {
						t.Errorf("status %d, error %v, %s after the server was back", status, err, late)
					}
					if requests := len(s.tokens) - before; requests > int(outage/maxWait)+5 {
						t.Errorf("%d requests in %s", requests, outage)
					}
				}
				if len(*reported) == 0 || !strings.Contains((*reported)[0].Error(), test.reported) {
					t.Errorf("reported %v, want %q", *reported, test.reported)
				}
			})
		})
	}
}

// What the server decides, and what informers have to handle, is not repeated: after its data was
// restored, a server responds to the old version with a timeout, and informers ask without one.
func TestOtherErrorsAreReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, refusal := range []int{
			http.StatusForbidden, http.StatusNotFound, http.StatusGone, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusGatewayTimeout,
		} {
			s := &server{until: time.Now().Add(time.Hour), away: refusal}
			client, reported := s.client(t, rest.Config{})
			if status, err := get(t.Context(), client); status != refusal || err != nil || len(s.tokens) != 1 || len(*reported) > 0 {
				t.Errorf("status %d, error %v, after %d requests, want %d", status, err, len(s.tokens), refusal)
			}
		}
	})
}

// An informer that is stopped does not wait.
func TestWaitingEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{until: time.Now().Add(time.Hour)}
		client, _ := s.client(t, rest.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := get(ctx, client); err == nil || time.Since(begun) != 10*time.Second {
			t.Errorf("error %v after %s", err, time.Since(begun))
		}
	})
}

// A token that is renewed meanwhile is used.
func TestRequestsAreRepeatedWithThePresentToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	s := &server{}
	synctest.Test(t, func(t *testing.T) {
		s.until = time.Now().Add(time.Hour)
		client, reported := s.client(t, rest.Config{BearerTokenFile: file})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = get(ctx, client)
		write("new")
		_, _ = get(t.Context(), client)
		if len(*reported) == 0 {
			t.Error("nothing was reported")
		}
	})
	if first, last := s.tokens[0], s.tokens[len(s.tokens)-1]; first != "Bearer old" || last != "Bearer new" {
		t.Errorf("first token %q, last %q", first, last)
	}
}

// Clients that are created from the same configuration are not affected.
func TestOtherClientsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{until: time.Now().Add(time.Hour)}
		config := &rest.Config{Host: "https://host", Transport: s}
		if _, err := NewForConfig(config, func(error) {}, itself); err != nil {
			t.Fatal(err)
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := get(t.Context(), client); err == nil || len(s.tokens) != 1 {
			t.Errorf("error %v after %d requests", err, len(s.tokens))
		}
	})
}
