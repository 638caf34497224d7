// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"

	nodes "github.com/pullwarden/pullwarden/integration/node"
)

// ref is the reference that a pull asks for.
func (r *registry) ref(p Pull) string {
	if p.Digest != 0 {
		return r.name + "/" + repo[p.repo()] + "@" + r.digest(p.Digest).String()
	}
	return r.name + "/" + nameOf[p.Name]
}

// observe reads the state of the node from its image records. Blamed cannot be
// seen. The error is that of a record that no history allows.
func (n *node) observe(ctx context.Context, r *registry) (World, error) {
	records, err := n.records(ctx, r)
	if err != nil {
		return World{}, err
	}
	var w World
	for _, record := range records {
		name := strings.TrimPrefix(record.Name, r.name+"/")
		content := r.content(record.Target.Digest)
		if content == 0 {
			return w, fmt.Errorf("the record %s has a target that was never pushed", name)
		}
		labels, proofs, err := n.labels(r, record, content)
		if err != nil {
			return w, fmt.Errorf("the record %s: %w", name, err)
		}
		if repository, digest, ok := strings.Cut(name, "@"); ok {
			if digest != record.Target.Digest.String() {
				return w, fmt.Errorf("a record by digest has another target")
			}
			w.Has[slices.Index(repo[:], repository)][content].add(proofs | known)
			continue
		}
		tag := slices.Index(nameOf[:], name)
		if labels.Content == content {
			w.Node[tag] = Image{Content: content, Stale: labels.Stale, Proofs: labels.Proofs, By: labels.By, Read: labels.Read, Open: labels.Open}
		} else {
			w.Node[tag] = Image{Content: content, Open: true, Under: labels}
		}
	}
	return w, nil
}

// labels returns what the labels of a record say of the content that they are for,
// which may not be its own any more, and the proofs for its own content. Labels for
// another name say nothing.
func (n *node) labels(r *registry, record images.Image, content int) (Labels, Set, error) {
	of, name, bound := strings.Cut(record.Labels[nodes.LabelPrefix+"record"], " ")
	if !bound || name != record.Name {
		return Labels{Content: content, Open: true}, 0, nil
	}
	proofs, err := n.proofs(r, digest.Digest(of), record.Labels)
	if err != nil {
		return Labels{}, 0, err
	}
	l := Labels{
		Content: r.content(digest.Digest(of)), Proofs: proofs, Open: !proofs.has(marked),
		Stale: Class(slices.Index(classNames[:], record.Labels[nodes.LabelPrefix+"stale-reason"])),
	}
	l.Proofs.remove(marked)
	if !l.Open {
		if l.Read, err = readerOf(r, record.Labels); err == nil {
			l.By, err = r.saidBy(record.Labels, "verified-at")
		}
		if err != nil {
			return Labels{}, 0, err
		}
	}
	if l.Content != content {
		proofs = 0
		if l.Open && l.Stale == None {
			l = Labels{} // they say nothing that could count again
		}
	}
	return l, proofs, nil
}

// proofs returns who has proved access by the labels of a record. A check of another
// digest is an error, and so are proofs without a check.
func (n *node) proofs(r *registry, target digest.Digest, labels map[string]string) (Set, error) {
	var proofs Set
	for _, label := range []string{"verified-digest", "mirror-digest"} {
		switch said := labels[nodes.LabelPrefix+label]; said {
		case target.String():
			proofs.add(marked)
		case "":
		default:
			return 0, fmt.Errorf("its label %s is not that of its target, but %q", label, said)
		}
	}
	for label, value := range labels {
		fingerprint, ok := strings.CutPrefix(strings.TrimSuffix(label, earlier), nodes.LabelPrefix+"access.")
		if !ok || value == "" {
			continue
		}
		switch holder, known := n.holders[fingerprint]; {
		case !known:
			return 0, errors.New("it has a proof of nobody knows whom")
		case !proofs.has(marked):
			return 0, errors.New("it has a proof and no check")
		default:
			proofs.add(r.wordBy(labels, strings.TrimPrefix(label, nodes.LabelPrefix)).of(holder))
		}
		if _, err := r.saidBy(labels, "access."+fingerprint); err != nil {
			return 0, err
		}
	}
	return proofs, nil
}

// runnable returns why a container cannot be made of some image of the history:
// all of its content is there and true, and a snapshot can be made from it.
func (n *node) runnable(ctx context.Context, r *registry) error {
	records, err := n.records(ctx, r)
	if err != nil {
		return err
	}
	done := map[digest.Digest]bool{}
	for _, record := range records {
		if done[record.Target.Digest] {
			continue
		}
		done[record.Target.Digest] = true
		img := containerd.NewImage(n.Client, record)
		err := n.Snapshotable(ctx, img, "overlayfs")
		if err != nil {
			// A kill can leave a snapshot's directory without its entry in the
			// database. The first attempt to make a snapshot then fails and
			// removes it, also in stock containerd.
			err = n.Snapshotable(ctx, img, "overlayfs")
		}
		if err != nil {
			return fmt.Errorf("%s cannot run: %w", record.Name, err)
		}
	}
	return nil
}
