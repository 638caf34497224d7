// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/imageverifier"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/containerd/v2/plugins/services"
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/plugin"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pullwarden/pullwarden/internal/machineid"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/internal/stdlog"
	"github.com/pullwarden/pullwarden/plugin/api"
	"github.com/pullwarden/pullwarden/plugin/audit"
	"github.com/pullwarden/pullwarden/plugin/config"
	"github.com/pullwarden/pullwarden/plugin/cri"
	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/metrics"
	"github.com/pullwarden/pullwarden/plugin/pin"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/pull"
	"github.com/pullwarden/pullwarden/plugin/rules"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/store"
	"github.com/pullwarden/pullwarden/store/content"
)

// imagePolicy is the running plugin.
type imagePolicy struct {
	engine     *engine.Engine
	cri        cri.Config
	puller     *pull.Puller
	key        *store.Key
	store      *store.Store
	rules      *rules.Dir
	pins       *pin.Keeper
	registries *resolver.Resolver
	audit      *audit.Log                       // nil = none
	images     atomic.Pointer[cri.ImageService] // nil until CRI has started
	hosts      *hosts.Watcher
	counts     *metrics.Metrics
}

// Close writes what is pending and ends the background work. containerd calls
// it when it stops.
func (p *imagePolicy) Close() error {
	// The engine comes first: what it ends uses the others.
	return errors.Join(p.engine.Close(), p.pins.Close(), p.rules.Close(), p.store.Close(), p.registries.Close(), p.hosts.Close(), p.audit.Close())
}

// sandboxImage returns the image of pods where it has to be pulled for CRI; nil
// otherwise.
func (p *imagePolicy) sandboxImage() *cri.SandboxImage {
	name := p.puller.SandboxImage()
	if name == "" {
		return nil
	}
	return &cri.SandboxImage{Name: name, Config: p.cri, Puller: p.puller, Registry: p.registries, Needed: p.puller.NeedsSandboxImage, Now: time.Now}
}

// starts makes the policy hold for the starts of containers, by containerd's own runtime
// service.
func (p *imagePolicy) starts(sandboxes cri.Sandboxes) *cri.Starts {
	return &cri.Starts{
		Governs: func(ctx context.Context, image policy.Image) (bool, error) {
			inForce, err := p.rules.Current(ctx)
			return inForce.GovernsStarts(image), err
		},
		ProvesStarts: func(ctx context.Context) (bool, error) {
			inForce, err := p.rules.Current(ctx)
			return inForce.ProvesStarts(), err
		},
		Sandboxes: sandboxes, Observe: p.counts.Start, Now: time.Now,
	}
}

// start is the plugin's InitFn.
func start(ic *plugin.InitContext) (any, error) {
	section, ok := ic.Config.(*config.Section)
	if !ok {
		return nil, fmt.Errorf("configuration is a %T", ic.Config)
	}
	c, err := section.Parse()
	if err != nil {
		return nil, err
	}
	ic.Meta.Exports[api.ExportEnabled] = strconv.FormatBool(c.Enabled)
	if !c.Enabled {
		return nil, fmt.Errorf("pullwarden is not enabled: %w", plugin.ErrSkipPlugin)
	}
	host, err := findHost(ic)
	if err != nil {
		return nil, err
	}
	logMinor(ic.Context, version.Version)
	for _, limit := range host.puller.Limits() {
		prefixlog.G(ic.Context).Warn(limit.String())
	}
	stdlog.Guard()
	resolver.GuardURLs()
	pull.EndUnpacks()
	p, err := newImagePolicy(c, host, ic.Properties[plugins.PropertyRootDir], ic.Properties[plugins.PropertyStateDir])
	if err != nil {
		return nil, err
	}
	host.images.KeepBy(proofKeeper{p.store, host.sources})
	return p, nil
}

// host is the part of the daemon that pullwarden works with.
type host struct {
	cri         cri.Config
	db          *metadata.DB
	puller      *pull.Puller
	images      *pull.Images
	sources     *transfer.Service
	verifyImage func(ctx context.Context, name string, target ocispec.Descriptor) error // nil = there are no verifiers
}

func findHost(ic *plugin.InitContext) (h host, err error) {
	images := ic.Plugins().Get(plugins.CRIServicePlugin, "images")
	if images == nil {
		return host{}, fmt.Errorf("CRI's image plugin is not there: %w", plugin.ErrSkipPlugin)
	}
	if h.cri, err = cri.ReadConfig(images.Config); err != nil {
		return host{}, err
	}
	m, err := ic.GetSingle(plugins.MetadataPlugin)
	if err != nil {
		return host{}, err
	}
	var ok bool
	if h.db, ok = m.(*metadata.DB); !ok {
		return host{}, fmt.Errorf("the metadata plugin is a %T", m)
	}
	if h.images, err = imagesService(ic); err != nil {
		return host{}, err
	}
	node, err := pull.NodeOf(ic)
	if err != nil {
		return host{}, err
	}
	h.verifyImage = verifyImage(node.Verifiers)
	var runtimePlugin any
	if p := ic.Plugins().Get(plugins.CRIServicePlugin, "runtime"); p != nil {
		runtimePlugin = p.Config
	}
	settings, err := pull.ReadSettings(images.Config, runtimePlugin)
	if err != nil {
		return host{}, err
	}
	service, err := trackSources(ic, h.db, h.cri, settings)
	if err != nil {
		return host{}, err
	}
	h.sources = service
	h.puller, err = newPuller(ic, node, service, settings)
	return h, err
}

// imagesService returns the service of image records, which was decorated before anybody knew whether pullwarden is enabled.
func imagesService(ic *plugin.InitContext) (*pull.Images, error) {
	instance, err := ic.GetByID(plugins.ServicePlugin, services.ImagesService)
	if err != nil {
		return nil, fmt.Errorf("the service of image records: %w", err)
	}
	service, ok := instance.(*pull.Images)
	if !ok {
		return nil, fmt.Errorf("pullwarden does not know the service of image records of containerd %s, a %T", version.Version, instance)
	}
	return service, nil
}

// newPuller puts CRI's settings and the transfer service together.
func newPuller(ic *plugin.InitContext, node pull.Node, service *transfer.Service, settings pull.Settings) (*pull.Puller, error) {
	index, err := pull.Index(ic)
	if err != nil {
		return nil, err
	}
	isolated, err := pull.NewService(node, settings, service.Inner())
	if err != nil {
		return nil, fmt.Errorf("pullwarden does not know the transfer service of containerd %s: %w", version.Version, err)
	}
	return pull.New(pull.Config{Settings: settings, Node: node, Service: service.Around(isolated), Index: index})
}

// newImagePolicy puts the parts together. The key of fingerprints and the last good
// rules are kept in the directory root; the directory state is lost with the machine's memory.
func newImagePolicy(c config.Config, host host, root, state string) (*imagePolicy, error) {
	key, err := store.OpenKey(filepath.Join(root, "key"), machineid.File)
	if err != nil {
		return nil, err
	}
	images := metadata.NewImageStore(host.db)
	counts := metrics.New()
	pins := &keeper{reloaded: counts.Reloaded}
	current, err := rules.Open(rules.Options{
		Path: c.ConfigPath, Required: c.ConfigPathSet, Section: c.Directives,
		Archive: filepath.Join(root, "rules", "last-good.tar.gz"), Reloaded: pins.Reloaded,
	})
	if err != nil {
		return nil, err
	}
	observers := []func(context.Context, engine.Outcome){logOutcome, traceOutcome, counts.Decision}
	var auditLog *audit.Log
	if c.AuditLog != "" {
		if auditLog, err = audit.Open(c.AuditLog, counts.AuditLost); err != nil {
			return nil, errors.Join(err, current.Close())
		}
		observers = append(observers, auditLog.Observe)
	}
	watcher, registries := openRegistries(host.cri, counts, filepath.Join(root, "hosts"), filepath.Join(state, "hosts"), host.puller.ProgressTimeout())
	records, contents := store.New(host.db, images), content.New(host.db, host.puller.ProgressTimeout())
	contents.MayBeRemote = host.puller.MayBeRemote
	pins.Store(pin.Start(pin.Options{
		Records: records, Sizes: contents, Index: host.puller, MayPin: func(tag string) bool { return mayPin(current.InForce(), tag) },
		Limit: c.PinLimit, Released: counts.Released, Now: time.Now,
	}))
	p := &imagePolicy{
		cri: host.cri, puller: host.puller, key: key, store: records, rules: current, pins: pins.Load(), registries: registries, hosts: watcher, audit: auditLog, counts: counts,
		engine: &engine.Engine{
			Rules:       current.Current,
			Records:     records,
			Content:     contents,
			Sources:     host.sources,
			Marks:       records,
			Proofs:      records,
			Registry:    registries,
			VerifyImage: host.verifyImage,
			Pins:        pins.Load(),
			Observe: func(ctx context.Context, o engine.Outcome) {
				for _, observe := range observers {
					observe(ctx, o)
				}
			},
			Now:      time.Now,
			Started:  time.Now(),
			Node:     key.Node(),
			Patience: host.puller.ProgressTimeout(),
		},
	}
	err = counts.Register(prometheus.DefaultRegisterer, metrics.Sources{
		Images: images.List, Pinned: p.pins.Count, Rules: current.InForce, Troubled: registries.Troubled,
		BackgroundPulls: func() int { return len(p.engine.BackgroundPulls()) },
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("register metrics: %w", err), p.Close())
	}
	return p, nil
}

// verifyImage asks all image verifiers of the node, as the transfer service
// does before each pull. It is nil when there are none.
func verifyImage(verifiers map[string]imageverifier.ImageVerifier) func(context.Context, string, ocispec.Descriptor) error {
	if len(verifiers) == 0 {
		return nil
	}
	return func(ctx context.Context, image string, target ocispec.Descriptor) error {
		for name, v := range verifiers {
			judgement, err := v.VerifyImage(ctx, image, target)
			if err != nil {
				return fmt.Errorf("image verifier %s for digest %s: %w", name, target.Digest, err)
			}
			if !judgement.OK {
				return fmt.Errorf("image verifier %s refused digest %s: %s", name, target.Digest, judgement.Reason)
			}
		}
		return nil
	}
}
