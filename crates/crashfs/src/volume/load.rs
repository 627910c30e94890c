//! A volume with what a power cut left.

use super::{Body, State, TOP, Volume};
use seekless_calls::model::{self, ObjectId, Tree};
use seekless_fs::call::New;
use std::collections::BTreeMap;

impl Volume {
    /// A volume that holds this tree. It records nothing.
    pub(crate) fn of_tree(tree: &Tree) -> Volume {
        let mut state = State::new(None);
        let mut indices: BTreeMap<ObjectId, usize> = BTreeMap::from([(model::TOP, TOP)]);
        let mut left = vec![model::TOP];
        while let Some(directory) = left.pop() {
            let above = indices[&directory];
            for (name, object) in tree.names(directory) {
                let index = *indices.entry(object).or_insert_with(|| {
                    if tree.object(object).is_directory() {
                        left.push(object);
                    }
                    state.load(tree, object)
                });
                state.set_name(above, name, Some(index));
            }
        }
        Volume::of(state)
    }
}

impl State {
    fn load(&mut self, tree: &Tree, object: ObjectId) -> usize {
        let is_directory = tree.object(object).is_directory();
        let (what, usual) = if is_directory { (New::Directory, 0o755) } else { (New::File, 0o644) };
        let index = self.add(&what, tree.attributes(object).mode.unwrap_or(usual));
        if let Body::File(bytes) = &mut self.inodes[index].body {
            *bytes = tree.bytes(object);
        }
        index
    }
}
