// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

const (
	// retryDelay is how long a client waits after an error.
	retryDelay = 300 * time.Millisecond
	// readTimeout is how long a read may take.
	readTimeout = 5 * time.Second
	// watchTimeout is after how long the server ends a watch, so that many are resumed.
	watchTimeout = 45 * time.Second
)

// Client is a client of one resource of a cluster, with connections of its own.
type Client struct {
	cluster, resource, name string
	client                  dynamic.Interface
	namespaces              []string
	record                  func(history.Entry)
	// version is that of the last event, and empty if a watch cannot be resumed.
	version string
}

// NewClient returns a client that records what it sees in some namespaces.
func NewClient(cluster, resource, name string, config *rest.Config, namespaces []string, record func(history.Entry)) (*Client, error) {
	config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{}).DialContext // otherwise, clients of one process share connections
	client, err := dynamic.NewForConfig(config)
	return &Client{cluster: cluster, resource: resource, name: name, client: client, namespaces: namespaces, record: record}, err
}

func (c *Client) recordWatch(w history.Watch) {
	w.Cluster, w.Resource, w.Client = c.cluster, c.resource, c.name
	c.record(history.Entry{Watch: &w})
}

// Watch watches until the context is done: it resumes a watch that ended where it ended, and
// begins with a list where that is not possible.
func (c *Client) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.watchOnce(ctx)
		if expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err); expired {
			c.version = ""
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(retryDelay):
			}
		}
	}
}

// watchOnce watches until the watch ends.
func (c *Client) watchOnce(ctx context.Context) error {
	options := metav1.ListOptions{LabelSelector: selectors[c.resource], AllowWatchBookmarks: true, ResourceVersion: c.version, TimeoutSeconds: ptr.To(int64(watchTimeout.Seconds()))}
	if c.version == "" {
		options.SendInitialEvents, options.ResourceVersionMatch = ptr.To(true), metav1.ResourceVersionMatchNotOlderThan
	}
	w, err := c.client.Resource(resources[c.resource]).Watch(ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	if c.version != "" {
		c.recordWatch(history.Watch{Type: history.Resumed, ResourceVersion: c.version})
	} else if err := c.initial(w); err != nil {
		return err
	}
	err = c.events(w)
	closed := history.Watch{Type: history.Closed}
	if err != nil {
		closed.Error = err.Error()
	}
	c.recordWatch(closed)
	return err
}

// initial records the objects with which a watch begins.
func (c *Client) initial(w watch.Interface) error {
	listed := history.Watch{Type: history.Listed}
	for event := range w.ResultChan() {
		object, err := c.decode(event)
		switch {
		case err != nil:
			return err
		case event.Type == watch.Bookmark && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
			listed.ResourceVersion = object.GetResourceVersion()
			c.version = listed.ResourceVersion
			c.recordWatch(listed)
			return nil
		case event.Type == watch.Added:
			if err := c.appendTo(&listed.Items, object); err != nil {
				return err
			}
		}
	}
	return errors.New("the watch ended before the end of the list")
}

func (c *Client) appendTo(items *[]history.Object, object *unstructured.Unstructured) error {
	if !slices.Contains(c.namespaces, object.GetNamespace()) {
		return nil
	}
	converted, err := convert(c.resource, object)
	*items = append(*items, converted)
	return err
}

// events records events until the watch ends.
func (c *Client) events(w watch.Interface) error {
	for event := range w.ResultChan() {
		object, err := c.decode(event)
		if err != nil {
			return err
		}
		seen := history.Watch{Type: string(event.Type), ResourceVersion: object.GetResourceVersion()}
		c.version = seen.ResourceVersion
		if event.Type == watch.Bookmark {
			c.recordWatch(seen)
			continue
		}
		if !slices.Contains(c.namespaces, object.GetNamespace()) {
			continue
		}
		converted, err := convert(c.resource, object)
		if err != nil {
			return err
		}
		seen.Object = &converted
		c.recordWatch(seen)
	}
	return nil
}

// decode returns the object of an event, or the error that it reports.
func (c *Client) decode(event watch.Event) (*unstructured.Unstructured, error) {
	if event.Type == watch.Error {
		return nil, apierrors.FromObject(event.Object)
	}
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", event.Object)
	}
	return object, nil
}

// Read lists all objects again and again until the context is done.
func (c *Client) Read(ctx context.Context, period time.Duration) {
	for ctx.Err() == nil {
		_ = c.List(ctx, true) // nothing was seen
		select {
		case <-ctx.Done():
		case <-time.After(period):
		}
	}
}

// List lists all objects once. What a client knows of a list ends at once, if that is asked for.
func (c *Client) List(ctx context.Context, once bool) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := c.client.Resource(resources[c.resource]).List(ctx, metav1.ListOptions{LabelSelector: selectors[c.resource]})
	if err != nil {
		return err
	}
	listed := history.Watch{Type: history.Listed, ResourceVersion: list.GetResourceVersion()}
	for i := range list.Items {
		if err := c.appendTo(&listed.Items, &list.Items[i]); err != nil {
			return err
		}
	}
	slices.SortFunc(listed.Items, func(a, b history.Object) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	c.recordWatch(listed)
	if once {
		c.recordWatch(history.Watch{Type: history.Closed})
	}
	return nil
}
