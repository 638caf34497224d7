// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/store"
)

// Records is what the node knows of images, in the namespace of the context;
// *store.Store is one.
type Records interface {
	// Get returns a record; errdefs.ErrNotFound when there is none.
	Get(ctx context.Context, name string) (store.Record, error)
	// First returns for each list of names the record of the first name of
	// which anything is known; nil where there is none.
	First(ctx context.Context, lists [][]string) ([]*store.Record, error)
}

// annotationsOf returns the state of a record by the keys of its labels; nil
// where nothing is known.
func annotationsOf(r store.Record) map[string]string {
	if !r.Known() {
		return nil
	}
	annotations := make(map[string]string, 8)
	add := func(key, value string) {
		if value != "" {
			annotations[key] = value
		}
	}
	add(store.LabelPullSource, r.PullSource)
	add(store.LabelContentSources, store.EncodeSources(r.ContentSources, r.MoreSources))
	add(store.LabelVerifiedDigest, r.Verified.Digest.String())
	add(store.LabelVerifiedAt, shownTime(r.Verified.At))
	add(store.LabelVerifiedBy, r.Verified.By)
	add(store.LabelStaleSince, shownTime(r.Stale.Since))
	add(store.LabelStaleReason, string(r.Stale.Reason))
	return annotations
}

// shownInfo is info["pullwarden"] of a verbose ImageStatus.
type shownInfo struct {
	PullSource     string   `json:"pullSource,omitempty"`
	ContentSources []string `json:"contentSources,omitempty"`
	MoreSources    int      `json:"moreSources,omitempty"` // that the list lacks at least
	PulledAt       string   `json:"pulledAt,omitempty"`
	VerifiedDigest string   `json:"verifiedDigest,omitempty"`
	VerifiedAt     string   `json:"verifiedAt,omitempty"`
	VerifiedBy     string   `json:"verifiedBy,omitempty"`
	StaleSince     string   `json:"staleSince,omitempty"`
	StaleReason    string   `json:"staleReason,omitempty"`
}

// infoKey is the key of shownInfo.
const infoKey = "pullwarden"

func infoOf(r store.Record) shownInfo {
	return shownInfo{
		PullSource:     r.PullSource,
		ContentSources: r.ContentSources,
		MoreSources:    r.MoreSources,
		PulledAt:       shownTime(r.PulledAt),
		VerifiedDigest: r.Verified.Digest.String(),
		VerifiedAt:     shownTime(r.Verified.At),
		VerifiedBy:     r.Verified.By,
		StaleSince:     shownTime(r.Stale.Since),
		StaleReason:    string(r.Stale.Reason),
	}
}

func shownTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// namesOf returns the names under which CRI knows an image, its tags in their
// alphabetical order, then its digests: the first that anything is known of
// speaks for the image.
func namesOf(image *runtime.Image) []string {
	names := make([]string, 0, len(image.GetRepoTags())+len(image.GetRepoDigests()))
	names = append(append(names, image.GetRepoTags()...), image.GetRepoDigests()...)
	slices.Sort(names[:len(image.GetRepoTags())])
	slices.Sort(names[len(image.GetRepoTags()):])
	return names
}

// withLostName adds the name that an image was asked for by to those that CRI has for it, where CRI still
// finds it by that name: its index forgets all names of an image that are equal but for their case as soon
// as one of them is moved or removed, and anybody may pull it by such a name. The error is containerd's.
func withLostName(ctx context.Context, images runtime.ImageServiceServer, name string, image *runtime.Image) error {
	named, lost := lostName(name, image)
	if !lost {
		return nil
	}
	// A whole name is no part of an ID, as that which was asked for may be.
	found, err := images.ImageStatus(ctx, &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: named.String()}})
	if err != nil || found.GetImage().GetId() != image.GetId() {
		return err
	}
	if _, ok := named.(reference.Canonical); ok {
		image.RepoDigests = append(image.RepoDigests, named.String())
	} else {
		image.RepoTags = append(image.RepoTags, named.String())
	}
	return nil
}

// lostName is the whole name that an image was asked for by, where CRI does not have it among the image's.
// An ID is none.
func lostName(name string, image *runtime.Image) (reference.Named, bool) {
	if _, err := digest.Parse(name); err == nil {
		return nil, false
	}
	named, err := reference.ParseDockerRef(name)
	return named, err == nil && !slices.Contains(namesOf(image), named.String())
}

// show puts the state of a record into an image, whose spec then names the
// record.
func show(image *runtime.Image, r store.Record) {
	annotations := annotationsOf(r)
	if len(annotations) == 0 {
		return
	}
	if image.Spec == nil {
		image.Spec = &runtime.ImageSpec{Image: r.Name}
	}
	if image.Spec.Annotations == nil {
		image.Spec.Annotations = annotations
		return
	}
	maps.Copy(image.Spec.Annotations, annotations)
}

// recordFor returns the record for an image that was requested by this name or
// image ID: that of the name where it is one of own, or else the one that speaks
// for the image.
func recordFor(ctx context.Context, records Records, name string, image *runtime.Image, own []string) (store.Record, bool, error) {
	if named, err := reference.ParseDockerRef(name); err == nil && slices.Contains(own, named.String()) {
		r, err := records.Get(ctx, named.String())
		if err == nil {
			return r, true, nil
		}
		if !errdefs.IsNotFound(err) {
			return store.Record{}, false, fmt.Errorf("read the image record %q: %w", named, err)
		}
	}
	found, err := records.First(ctx, [][]string{namesOf(image)})
	if err != nil || found[0] == nil {
		return store.Record{}, false, err
	}
	return *found[0], true, nil
}

// ImageStatus adds the state of the image: that of the tag which was asked for, or
// else of the image's first. So an image with one tag has one answer, by whichever
// reference (critest: image status should support all kinds of references). Under govern =
// "Starts" a kubelet may be told that there is none, so that it pulls.
func (s *ImageService) ImageStatus(ctx context.Context, r *runtime.ImageStatusRequest) (*runtime.ImageStatusResponse, error) {
	r, err := s.withWholeName(ctx, r)
	if err != nil {
		return nil, err
	}
	response, err := s.visible(ctx, r)
	if err != nil || response.GetImage() == nil {
		return response, err
	}
	record, ok, err := recordFor(ctx, s.records, r.GetImage().GetImage(), response.GetImage(), response.GetImage().GetRepoTags())
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warn("the source of an image is not shown")
	}
	if !ok {
		return response, nil
	}
	show(response.Image, record)
	if r.GetVerbose() && record.Known() {
		data, err := json.Marshal(infoOf(record))
		if err != nil {
			return nil, fmt.Errorf("show the source of the image: %w", err)
		}
		if response.Info == nil {
			response.Info = map[string]string{}
		}
		response.Info[infoKey] = string(data)
	}
	return response, nil
}
