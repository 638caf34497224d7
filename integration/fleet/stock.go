// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/pullwarden/pullwarden/store"
)

// stock is a model of what stock containerd asks for a pod with imagePullPolicy: Always:
// everything anew for each pull, on connections of its own. It asks for a HEAD, a token
// and the HEAD again; the content only where it is missing. A 429 is repeated at once, until
// there have been five tries, and a 5xx once, as core/remotes/docker does (retryRequest in
// v2.4). A connection that times out is not: it counts as a deadline there.
type stock struct{ hosts []*client }

func newStock(f *fleet, id int) *stock {
	s := &stock{}
	n := &node{fleet: f, id: id}
	for _, r := range f.registries() {
		s.hosts = append(s.hosts, &client{registry: r, address: n.address(), dialTimeout: longDial, once: true})
	}
	return s
}

// pull pulls the image of a repository's tag, from the first host that has it.
func (s *stock) pull(ctx context.Context, n *node, repository string) (err error) {
	for _, host := range s.hosts {
		p := &stockPull{client: host, node: n, repository: repository}
		if err = p.pull(ctx); err == nil {
			return nil
		}
	}
	return err
}

// stockPull is one pull from one host.
type stockPull struct {
	client     *client
	node       *node
	repository string
	connected  bool
	token      string
}

func (p *stockPull) pull(ctx context.Context) error {
	path := "/v2/" + strings.TrimPrefix(p.repository, originHost+"/")
	header, err := p.ask(ctx, http.MethodHead, path+"/manifests/1")
	if err != nil {
		return err
	}
	i := p.node.fleet.catalog.byText(header.Get("Docker-Content-Digest"))
	if i == nil {
		return errors.New("the registry has an image that nobody pushed")
	}
	name := p.repository + tagSuffix
	if record, err := p.node.records.Get(ctx, name); err == nil && record.Target.Digest == i.manifest.desc.Digest {
		return nil
	}
	wanted := []string{path + "/manifests/" + i.manifest.desc.Digest.String(), path + "/blobs/" + i.config.desc.Digest.String()}
	for _, layer := range []blob{i.base, i.top} {
		if !p.node.records.has(layer.desc.Digest) {
			wanted = append(wanted, path+"/blobs/"+layer.desc.Digest.String())
		}
	}
	for _, content := range wanted {
		if _, err := p.ask(ctx, http.MethodGet, content); err != nil {
			return err
		}
	}
	p.node.records.put(i, func(store.State) store.State { return store.State{} }, name)
	return nil
}

// maxTries is how often containerd sends one request, challenges included.
const maxTries = 5

// ask makes a request until it is answered, as retryRequest repeats it, and returns the
// header of the answer.
func (p *stockPull) ask(ctx context.Context, method, path string) (http.Header, error) {
	failed := 0
	for range maxTries {
		resp, _, err := p.send(ctx, method, path) //nolint:bodyclose // send does
		if err != nil {
			return nil, err
		}
		switch {
		case resp.StatusCode == http.StatusOK:
			return resp.Header, nil
		case resp.StatusCode == http.StatusUnauthorized:
			if err := p.authorize(ctx); err != nil {
				return nil, err
			}
		case resp.StatusCode >= http.StatusInternalServerError:
			if failed++; failed > 1 {
				return nil, errors.New(resp.Status)
			}
		case resp.StatusCode != http.StatusTooManyRequests:
			return nil, errors.New(resp.Status)
		}
	}
	return nil, errors.New("too many tries")
}

// authorize gets a token, where the registry wants one.
func (p *stockPull) authorize(ctx context.Context) error {
	if p.client.registry.TokenTTL == 0 {
		p.token = "Basic cm9ib3Q6c2VjcmV0"
		return nil
	}
	resp, data, err := p.send(ctx, http.MethodGet, "/token") //nolint:bodyclose // send does
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	var answer struct{ Token string }
	if err := json.Unmarshal(data, &answer); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	p.token = "Bearer " + answer.Token
	return nil
}

// send makes a request. The body of the answer is in data.
func (p *stockPull) send(ctx context.Context, method, path string) (resp *http.Response, data []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "https://"+p.client.registry.host+path, nil)
	if err != nil {
		return nil, nil, err
	}
	if p.token != "" {
		req.Header.Set("Authorization", p.token)
	}
	resp, err = p.client.registry.serve(req, p.client, !p.connected)
	if p.connected = err == nil; !p.connected {
		return nil, nil, err
	}
	data, err = io.ReadAll(resp.Body)
	return resp, data, errors.Join(err, resp.Body.Close())
}
