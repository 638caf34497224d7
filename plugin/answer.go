// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"slices"

	"github.com/containerd/plugin"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/namespace"
	"github.com/pullwarden/pullwarden/plugin/api"
	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/explain"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/pull"
)

// serve is the InitFn of the plugin that answers pullwarden status and
// explain. Where pullwarden is not enabled or has not started there is no such
// service, and introspection tells why.
func serve(ic *plugin.InitContext) (any, error) {
	instance, err := ic.GetByID(Type, ID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, plugin.ErrSkipPlugin)
	}
	p, ok := instance.(*imagePolicy)
	if !ok {
		return nil, fmt.Errorf("plugin %s.%s is a %T", Type, ID, instance)
	}
	return &api.Server{Status: p.status, Explain: p.explain}, nil
}

// status collects what only the daemon knows.
func (p *imagePolicy) status(ctx context.Context) (api.Status, error) {
	inForce, err := p.rules.State(ctx)
	if err != nil {
		return api.Status{}, grpcstatus.FromContextError(err).Err()
	}
	s := api.Status{Rules: api.Rules{Path: p.rules.Path, Rules: inForce.Rules, Files: inForce.Files}}
	all := p.rules.InForce().All()
	s.Rules.Observed, s.Rules.RestObserved = observed(all)
	s.Rules.Verified = slices.ContainsFunc(all, func(e policy.Effective) bool { return e.Access == policy.Verified })
	if inForce.Err != nil {
		s.Rules.Error = inForce.Err.Error()
	}
	s.AuditLost = p.audit.Losing()
	for _, problem := range p.hosts.Problems() { //nolint:contextcheck // it reads files alone
		s.HostFiles = append(s.HostFiles, api.HostFile{Path: problem.Err.File, Error: problem.Err.Error(), LastGood: problem.LastGood, OnlyAsked: problem.OnlyAsked})
	}
	for _, h := range p.registries.Troubled() {
		if h.Open {
			s.Hosts = append(s.Hosts, api.Host{Host: h.Host, Class: string(h.Class), Since: h.Since.UTC(), Until: h.Until.UTC()})
		}
	}
	for _, limit := range p.puller.Limits() {
		s.Limits = append(s.Limits, limit.String())
	}
	s.Pulls = pulls(p.puller.UnderWay(), p.engine.BackgroundPulls())
	return s, nil
}

// pulls lists those under way, the oldest first. One in the background that waits for its
// turn, behind another one of its name, has nothing yet.
func pulls(underWay []pull.UnderWay, background []engine.BackgroundPull) (all []api.Pull) {
	index := map[string]int{} // one of a name has its turn
	for i, u := range underWay {
		index[u.Reference] = i
		all = append(all, api.Pull{Reference: u.Reference, Hosts: u.Hosts, Bytes: u.Bytes, Total: u.Total, Began: u.Began.UTC()})
	}
	for _, b := range background {
		if i, ok := index[b.Name]; ok && b.Begun {
			all[i].Background = true
			continue
		}
		all = append(all, api.Pull{Reference: b.Name, Hosts: []string{}, Began: b.Began.UTC(), Background: true})
	}
	slices.SortStableFunc(all, func(a, b api.Pull) int { return a.Began.Compare(b.Began) })
	return all
}

// observed counts the rules that are not enforced, and says whether images that no rule
// matches are, of the directives of all rules.
func observed(all []policy.Effective) (rules int, rest bool) {
	for i := range all {
		switch {
		case all[i].Mode != policy.Observe:
		case all[i].Rule == nil:
			rest = true
		default:
			rules++
		}
	}
	return rules, rest
}

// explain answers what a pod would get from CRI's PullImage.
func (p *imagePolicy) explain(ctx context.Context, r api.ExplainRequest) (api.Explanation, error) {
	images := p.images.Load()
	if images == nil {
		return api.Explanation{}, grpcstatus.Error(codes.Unavailable, "CRI has not started")
	}
	req, err := images.PodRequest(pullRequest(r))
	if err != nil {
		return api.Explanation{}, grpcstatus.Error(codes.InvalidArgument, err.Error())
	}
	x := p.engine.Explain(namespace.CRI(ctx), req, r.Ask)
	if err := ctx.Err(); err != nil {
		return api.Explanation{}, grpcstatus.FromContextError(err).Err()
	}
	return explain.New(req.Subject, x), nil
}

// pullRequest is the request that a kubelet would make of CRI.
func pullRequest(r api.ExplainRequest) *runtime.PullImageRequest {
	pull := &runtime.PullImageRequest{
		Image: &runtime.ImageSpec{
			Image: r.Reference, UserSpecifiedImage: r.Reference, RuntimeHandler: r.RuntimeHandler, Annotations: r.Annotations,
		},
		SandboxConfig: &runtime.PodSandboxConfig{Metadata: &runtime.PodSandboxMetadata{Namespace: r.Namespace}},
	}
	if a := r.Auth; a != nil {
		pull.Auth = &runtime.AuthConfig{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken}
	}
	return pull
}
