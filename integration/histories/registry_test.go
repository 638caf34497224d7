// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// registry is the registry of one history, and what the model knows of it.
type registry struct {
	*resolvertest.Registry
	mirror *resolvertest.Registry // of the same content, open to all
	name   string
	images [contents]v1.Image

	mu    sync.Mutex
	model Registry
}

const (
	userAlice = "alice"
	userBob   = "bob"
)

// callerOf finds a caller by the name of its credentials.
var callerOf = map[string]Caller{userAlice: Alice, userBob: Bob, "": Nobody}

// credentials of a caller; none for Nobody.
func (c Caller) credentials() (user, password string) {
	switch c {
	case Alice:
		return userAlice, "Pa55-of-alice"
	case Bob:
		return userBob, "Pa55-of-bob"
	case Wrong:
		return userAlice, "not-the-password-of-alice"
	}
	return "", ""
}

// newRegistry starts a registry with contents that no other has. The caller
// closes it.
func newRegistry(number int, basic bool) (*registry, error) {
	users := map[string]string{}
	for _, c := range []Caller{Alice, Bob} {
		user, password := c.credentials()
		users[user] = password
	}
	auth := resolvertest.WithTokenAuth(users)
	if basic {
		auth = resolvertest.WithBasicAuth(users)
	}
	started, err := resolvertest.Start(auth)
	if err != nil {
		return nil, err
	}
	mirror, err := resolvertest.Start()
	if err != nil {
		started.Close()
		return nil, err
	}
	r := &registry{Registry: started, mirror: mirror, name: fmt.Sprintf("r%d.test", number)}
	r.model.Basic = basic
	for i := range repos {
		r.model.Allowed[i].add(Origin.of(Alice.holder()) | Origin.of(Bob.holder()))
	}
	for i := 1; i < contents; i++ {
		r.images[i] = resolvertest.Image(int64(number*contents+i), 2, 20_000)
	}
	r.Allow(r.allowed)
	return r, nil
}

func (r *registry) allowed(user, repository string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range repos {
		if repo[i] == repository {
			return r.model.Allowed[i].has(Origin.of(callerOf[user].holder()))
		}
	}
	return false
}

// Close ends both hosts.
func (r *registry) Close() {
	r.Registry.Close()
	r.mirror.Close()
}

// requests are those of both hosts, but for probes.
func (r *registry) requests() []resolvertest.Request {
	return slices.DeleteFunc(append(r.Requests(), r.mirror.Requests()...), resolvertest.Probe)
}

// forget forgets the requests so far.
func (r *registry) forget() {
	r.Forget()
	r.mirror.Forget()
}

// now returns what the model knows.
func (r *registry) now() Registry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.model
}

func (r *registry) set(change func(*Registry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.model)
}

func (r *registry) push(ctx context.Context, name, content int) error {
	for _, host := range []*resolvertest.Registry{r.Registry, r.mirror} {
		if _, err := host.Push(ctx, nameOf[name], r.images[content]); err != nil {
			return err
		}
	}
	r.set(func(m *Registry) {
		m.Tag[name] = content
		m.Pushed[repoOf[name]][content] = true
	})
	return nil
}

func (r *registry) delete(ctx context.Context, name int) error {
	if r.now().Tag[name] == 0 {
		return nil
	}
	for _, host := range []*resolvertest.Registry{r.Registry, r.mirror} {
		if err := host.DeleteTag(ctx, repo[repoOf[name]], nameOf[name][len(repo[repoOf[name]])+1:]); err != nil {
			return err
		}
	}
	r.set(func(m *Registry) { m.Tag[name] = 0 })
	return nil
}

// permit lets a caller in, or shuts it out. Its tokens that are out are worth nothing for
// the repository any more. Under Basic authentication nobody without a name gets in: who
// is asked for it first depends on what was asked before.
func (r *registry) permit(name int, caller Caller, in bool) {
	allowed := r.now().Allowed[repoOf[name]].has(Origin.of(caller.holder()))
	if r.now().Basic && caller == Nobody || allowed == in {
		return
	}
	r.set(func(m *Registry) {
		if in {
			m.Allowed[repoOf[name]].add(Origin.of(caller.holder()))
		} else {
			m.Allowed[repoOf[name]].remove(Origin.of(caller.holder()))
		}
	})
	user, _ := caller.credentials()
	r.RevokeTokensOf(user, repo[repoOf[name]])
}

// trouble ends the trouble that there is, and begins another.
func (r *registry) trouble(t Trouble) error {
	if err := patiently(r.Restore); err != nil {
		return err
	}
	var err error
	switch t {
	case Refuses:
		r.Refuse()
	case Swallows:
		err = patiently(r.Swallow)
	case Status503:
		r.Status(resolvertest.All, 503)
	case Status429:
		r.Status(resolvertest.All, 429)
	case Forbids:
		r.Status(resolvertest.Manifests, 403)
	case Portal:
		r.HTML(resolvertest.Manifests)
	case Lies:
		r.WrongDigest()
	case NoBlobs:
		r.Status(resolvertest.Blobs, 503)
	case CutBlobs:
		r.DropMidBlob(100)
	}
	r.set(func(m *Registry) { m.Trouble = t })
	return err
}

// patiently tries again while a listener that has just been opened is still to
// be closed.
func patiently(f func() error) (err error) {
	for range 100 {
		if err = f(); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// at has f called at a moment of what is going on, or at its end. It returns
// what says that it is over, and then waits for f.
func (r *registry) at(m Moment, f func()) (end func()) {
	reached, over := make(chan struct{}), make(chan struct{})
	undo := r.after(m.Requests, reached)
	var done sync.WaitGroup
	done.Go(func() {
		select {
		case <-reached:
			select {
			case <-time.After(m.Delay):
			case <-over:
			}
		case <-over:
		}
		f()
	})
	return func() { close(over); done.Wait(); undo() }
}

// after closes reached once so many requests have come.
func (r *registry) after(requests int, reached chan<- struct{}) (undo func()) {
	if requests == 0 {
		close(reached)
		return func() {}
	}
	var count atomic.Int64
	return r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if count.Add(1) == int64(requests) {
			close(reached)
		}
		next.ServeHTTP(w, req)
	})
}

// digest of a content.
func (r *registry) digest(content int) digest.Digest {
	h, err := r.images[content].Digest()
	if err != nil {
		panic(err) // made in memory
	}
	return digest.Digest(h.String())
}

// id of the image of a content, as CRI has it.
func (r *registry) id(content int) string {
	h, err := r.images[content].ConfigName()
	if err != nil {
		panic(err) // made in memory
	}
	return h.String()
}

// content of a digest; 0 for none that the history knows.
func (r *registry) content(d digest.Digest) int {
	for i := 1; i < contents; i++ {
		if r.digest(i) == d {
			return i
		}
	}
	return 0
}
