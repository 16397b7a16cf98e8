# Kubeflow Trainer and JobSet for `.ci/cluster up --trainer`, which sources this file.
# shellcheck shell=bash disable=SC2154
trainer=2.2.1 jobset=0.12.0  # releases that are built on the same Kubernetes libraries
built_trainer=$home/built-trainer

has_trainer() { [ "$(cat "$built_trainer/made-of" 2> /dev/null)" = "Trainer $trainer, JobSet $jobset" ]; }

# A module of its own: their Kubernetes libraries are newer than the cluster.
build_trainer() {
  local work trainer_module=github.com/kubeflow/trainer/v2 jobset_module=sigs.k8s.io/jobset
  need 4 "building Kubeflow Trainer"
  echo "building Kubeflow Trainer $trainer and JobSet $jobset (some minutes, once)" >&2
  work=$(mktemp -d)
  {
    echo "module trainer"
    grep -E '^go ' "$(module $trainer_module "$trainer")/go.mod"
    printf 'require %s\n' "$trainer_module v$trainer" "$jobset_module v$jobset"
  } > "$work/go.mod"
  mkdir "$work/built"
  (
    cd "$work"
    export GOGC=400 CGO_ENABLED=0
    go build -mod=mod -gcflags=all=-dwarf=false -ldflags "-s -w" -o "$work/built/" \
      "$trainer_module/cmd/trainer-controller-manager" "$jobset_module"
  ) > "$home/build-trainer.log" 2>&1 || die "Kubeflow Trainer could not be built: $home/build-trainer.log"
  cp -r "$(module $trainer_module "$trainer")/manifests" "$work/built/trainer-manifests"
  cp -r "$(module $jobset_module "$jobset")/config" "$work/built/jobset-config"
  chmod -R u+w "$work/built"
  echo "Trainer $trainer, JobSet $jobset" > "$work/built/made-of"
  rm -rf "$built_trainer"
  mv "$work/built" "$built_trainer"
  rm -rf "$work"
}

# Each makes the certificate of its webhooks itself, and shows it to the API server, before it is ready.
kubeflow_trainer() {
  local own=$state/trainer work name
  work=$(mktemp -d)
  mkdir -p "$own"/{jobset,trainer}/kit "$work"/{jobset,trainer}
  cp -r "$built_trainer/jobset-config" "$own/jobset/config"
  cp -r "$built_trainer/trainer-manifests" "$own/trainer/manifests"
  cp "$built_trainer/jobset" "$work/jobset/manager"
  cp "$built_trainer/trainer-controller-manager" "$work/trainer/manager"
  for name in jobset trainer; do
    printf 'FROM scratch\nCOPY manager /manager\nUSER 65532:65532\nENTRYPOINT ["/manager"]\n' > "$work/$name/Dockerfile"
    docker buildx build --quiet --load --tag "kit.local/$name:1" "$work/$name" > /dev/null || die "kit.local/$name:1 could not be built"
  done
  load kit.local/jobset:1 kit.local/trainer:1
  rm -rf "$work"
  # One of each, so that a machine that is busy for 15 s ends none of them: that is how long they may take to lead.
  sed -i 's/leaderElect: true/leaderElect: false/; s/- --leader-elect$/&=false/' \
    "$own"/{jobset/config/components,trainer/manifests/base}/manager/controller_manager_config.yaml \
    "$own/jobset/config/components/manager/manager.yaml"
  sed -i /third-party/d "$own/trainer/manifests/overlays/manager/kustomization.yaml"  # it fetches a JobSet's manifests
  cat > "$own/jobset/kit/kustomization.yaml" << END
resources: [../config/default]
images: [{name: us-central1-docker.pkg.dev/k8s-staging-images/jobset/jobset, newName: kit.local/jobset, newTag: "1"}]
patches:  # pods of the tests need the cores that it asks for
  - target: {kind: Deployment, name: jobset-controller-manager}
    patch: '[{"op": "remove", "path": "/spec/template/spec/containers/0/resources"}]'
END
  cat > "$own/trainer/kit/kustomization.yaml" << END
resources: [../manifests/overlays/manager]
images: [{name: ghcr.io/kubeflow/trainer/trainer-controller-manager, newName: kit.local/trainer, newTag: "1"}]
END
  for name in jobset trainer; do
    kubectl apply --server-side -k "$own/$name/kit" >> "$state/logs/trainer.log" 2>&1 || { cat "$state/logs/trainer.log" >&2; exit 1; }
  done
  kubectl -n jobset-system rollout status deployment/jobset-controller-manager --timeout=180s > /dev/null
  kubectl -n kubeflow-system rollout status deployment/kubeflow-trainer-controller-manager --timeout=180s > /dev/null
}
