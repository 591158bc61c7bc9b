// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/kubeletapi"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/logs"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/network"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
)

// pods has a worker for each Pod of the node.
type pods struct {
	services *services
	running  sync.WaitGroup

	mu      sync.Mutex
	workers map[types.UID]*worker
}

// run runs the Pods of the node until the context is done, and then stops them.
func (p *pods) run(ctx context.Context) {
	informer := coreinformers.NewFilteredPodInformer(p.services.client, metav1.NamespaceAll, 0, nil, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", p.services.config.NodeName).String()
	})
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only when stopped
		AddFunc: func(object any) { p.update(ctx, object.(*corev1.Pod)) },
		UpdateFunc: func(before, object any) {
			// A Pod may have been replaced without an observed deletion.
			if uid := before.(*corev1.Pod).UID; uid != object.(*corev1.Pod).UID {
				p.remove(uid)
			}
			p.update(ctx, object.(*corev1.Pod))
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			p.remove(object.(*corev1.Pod).UID)
		},
	})
	informer.RunWithContext(ctx)
	p.running.Wait()
}

// update notifies the worker of a Pod, and creates the worker if needed.
func (p *pods) update(ctx context.Context, pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[pod.UID]; w != nil {
		w.update(pod)
		return
	}
	if ctx.Err() != nil {
		return
	}
	w := newWorker(p.services, pod)
	p.workers[pod.UID] = w
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("pod", klog.KObj(pod)))
	p.running.Go(func() {
		w.run(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.workers, pod.UID)
	})
}

func (p *pods) remove(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[uid]; w != nil {
		w.remove()
	}
}

// refresh notifies the workers of Pods that refer to an object.
func (p *pods) refresh(namespace string, changed object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		if pod := w.current(); pod.Namespace == namespace && references(pod)[changed] {
			w.refresh()
		}
	}
}

// find returns the worker of the Pod of that name. While a force-deleted Pod still
// terminates, a newer Pod of the same name has precedence.
func (p *pods) find(namespace, name string) (*worker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found *worker
	for _, w := range p.workers {
		pod := w.current()
		if pod.Namespace != namespace || pod.Name != name {
			continue
		}
		if found == nil || found.current().CreationTimestamp.Before(&pod.CreationTimestamp) {
			found = w
		}
	}
	if found == nil {
		return nil, fmt.Errorf("look for Pod %s/%s: %w", namespace, name, kubeletapi.ErrNotFound)
	}
	return found, nil
}

// List implements kubeletapi.Pods.
func (p *pods) List() []corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []corev1.Pod{}
	for _, w := range p.workers {
		list = append(list, *w.current())
	}
	return list
}

// Container implements kubeletapi.Pods.
func (p *pods) Container(namespace, pod, container string) (*sandbox.Container, error) {
	w, err := p.find(namespace, pod)
	if err != nil {
		return nil, err
	}
	w.containers.mu.Lock()
	defer w.containers.mu.Unlock()
	r := w.containers.record(container)
	if r == nil {
		return nil, fmt.Errorf("container %s of Pod %s/%s: %w", container, namespace, pod, kubeletapi.ErrNotFound)
	}
	if r.run == nil {
		return nil, fmt.Errorf("container %s of Pod %s/%s is not running", container, namespace, pod)
	}
	return r.run.container, nil
}

// Log implements kubeletapi.Pods.
func (p *pods) Log(namespace, pod, container string, previous bool) (*logs.Log, error) {
	w, err := p.find(namespace, pod)
	if err != nil {
		return nil, err
	}
	w.containers.mu.Lock()
	defer w.containers.mu.Unlock()
	r := w.containers.record(container)
	switch {
	case r == nil:
		return nil, fmt.Errorf("container %s of Pod %s/%s: %w", container, namespace, pod, kubeletapi.ErrNotFound)
	case previous && r.previous == nil:
		return nil, fmt.Errorf("previous terminated container %q in pod %q not found", container, pod)
	case previous:
		return r.previous, nil
	case r.log == nil:
		return nil, fmt.Errorf("container %q in pod %q is waiting to start", container, pod)
	}
	return r.log, nil
}

// Dial implements kubeletapi.Pods.
func (p *pods) Dial(ctx context.Context, namespace, pod string, port int32) (net.Conn, error) {
	w, err := p.find(namespace, pod)
	if err != nil {
		return nil, err
	}
	network := w.setup.podNetwork()
	if network == nil {
		return nil, fmt.Errorf("pod %s/%s is not running", namespace, pod)
	}
	return dial(ctx, network, port)
}

// dial tries both families, since programs may listen on either.
func dial(ctx context.Context, pod *network.Pod, port int32) (net.Conn, error) {
	var connection net.Conn
	err := pod.Do(func() error {
		var errs []error
		for _, host := range []string{"127.0.0.1", "::1"} {
			// With a single address, this goroutine makes the connection.
			var err error
			connection, err = (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	return connection, err
}
