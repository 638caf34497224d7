// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"

	"github.com/containerd/plugin"

	"github.com/pullwarden/pullwarden/plugin/api"
)

// serve is the InitFn of the plugin that answers pullwarden status. Where pullwarden
// is not enabled or has not started there is no such service, and introspection
// tells why.
func serve(ic *plugin.InitContext) (any, error) {
	instance, err := ic.GetByID(Type, ID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, plugin.ErrSkipPlugin)
	}
	p, ok := instance.(*imagePolicy)
	if !ok {
		return nil, fmt.Errorf("plugin %s.%s is a %T", Type, ID, instance)
	}
	return &api.Server{Status: p.status}, nil
}

// status collects what only the daemon knows.
func (p *imagePolicy) status() api.Status {
	inForce := p.rules.State()
	s := api.Status{Rules: api.Rules{Path: p.rules.Path, Rules: inForce.Rules, Files: inForce.Files}}
	if inForce.Err != nil {
		s.Rules.Error = inForce.Err.Error()
	}
	for _, problem := range p.hosts.Problems() {
		s.HostFiles = append(s.HostFiles, api.HostFile{Path: problem.Err.File, Error: problem.Err.Error(), LastGood: problem.LastGood})
	}
	for _, h := range p.registries.Troubled() {
		if h.Open {
			s.Hosts = append(s.Hosts, api.Host{Host: h.Host, Class: string(h.Class), Since: h.Since.UTC(), Until: h.Until.UTC()})
		}
	}
	for _, limit := range p.puller.Limits() {
		s.Limits = append(s.Limits, limit.String())
	}
	for _, u := range p.puller.UnderWay() {
		s.Pulls = append(s.Pulls, api.Pull{Reference: u.Reference, Hosts: u.Hosts, Bytes: u.Bytes, Total: u.Total, Began: u.Began.UTC()})
	}
	return s
}
