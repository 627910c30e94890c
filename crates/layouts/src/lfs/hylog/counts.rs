//! A small number for each block of a volume. Where many blocks in a row have the same one it takes
//! no memory for each of them.

/// Blocks of a page.
const PAGE: usize = 4096;

#[derive(Clone, Debug)]
enum Page {
    /// All blocks have the same.
    All(u8),
    Each(Box<[u8; PAGE]>),
}

/// The numbers.
#[derive(Clone, Debug)]
pub struct Counts {
    pages: Vec<Page>,
    blocks: u64,
}

impl Counts {
    /// Each of `blocks` blocks has this number.
    pub fn new(blocks: u64, number: u8) -> Counts {
        let pages = blocks.div_ceil(PAGE as u64);
        Counts { pages: (0..pages).map(|_| Page::All(number)).collect(), blocks }
    }

    /// The number of a block.
    #[inline]
    pub fn get(&self, block: u64) -> u8 {
        match &self.pages[block as usize / PAGE] {
            Page::All(number) => *number,
            Page::Each(numbers) => numbers[block as usize % PAGE],
        }
    }

    /// Gives a block another number.
    pub fn set(&mut self, block: u64, number: u8) {
        let page = &mut self.pages[block as usize / PAGE];
        if let Page::All(all) = page {
            if *all == number {
                return;
            }
            *page = Page::Each(Box::new([*all; PAGE]));
        }
        if let Page::Each(numbers) = page {
            numbers[block as usize % PAGE] = number;
        }
    }

    /// Gives all blocks the same number.
    pub fn fill(&mut self, number: u8) {
        self.pages.fill(Page::All(number));
    }

    /// Changes each number by its old value and that which the block has in `beside`.
    pub fn change_with(&mut self, beside: &Counts, change: impl Fn(u8, u8) -> u8) {
        debug_assert_eq!(self.blocks, beside.blocks, "numbers of other blocks");
        for (page, beside) in self.pages.iter_mut().zip(&beside.pages) {
            let mut numbers = match (&*page, beside) {
                (Page::All(own), Page::All(beside)) => {
                    *page = Page::All(change(*own, *beside));
                    continue;
                }
                (Page::All(own), Page::Each(_)) => Box::new([*own; PAGE]),
                (Page::Each(own), _) => own.clone(),
            };
            for (index, number) in numbers.iter_mut().enumerate() {
                let beside = match beside {
                    Page::All(beside) => *beside,
                    Page::Each(beside) => beside[index],
                };
                *number = change(*number, beside);
            }
            let first = numbers[0];
            let alike = numbers.iter().all(|&number| number == first);
            *page = if alike { Page::All(first) } else { Page::Each(numbers) };
        }
    }

    /// Changes each number by its old value.
    pub fn change(&mut self, change: impl Fn(u8) -> u8) {
        let none = Counts::new(self.blocks, 0);
        self.change_with(&none, |number, _| change(number));
    }

    /// True if some block has such a number.
    pub fn any(&self, is_such: impl Fn(u8) -> bool) -> bool {
        self.pages.iter().any(|page| match page {
            Page::All(number) => is_such(*number),
            Page::Each(numbers) => numbers.iter().any(|&number| is_such(number)),
        })
    }

    /// Memory that it takes, in bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        let each = self.pages.iter().filter(|page| matches!(page, Page::Each(_))).count();
        size_of_val(&*self.pages) + each * PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::rng::Rng;

    #[test]
    fn agrees_with_a_plain_list() {
        const BLOCKS: usize = 2 * PAGE + 100;
        let mut rng = Rng::stream(6, "counts");
        let (mut counts, mut plain) = (Counts::new(BLOCKS as u64, 9), vec![9; BLOCKS]);
        let mut beside = Counts::new(BLOCKS as u64, 0);
        for round in 0..60 {
            for _ in 0..rng.below(4) {
                let (block, number) = (rng.below(BLOCKS as u64), rng.below(200) as u8);
                counts.set(block, number);
                plain[block as usize] = number;
                beside.set(rng.below(BLOCKS as u64), round);
            }
            let change = |own: u8, beside: u8| own / 2 + beside.min(3);
            counts.change_with(&beside, change);
            for (block, number) in plain.iter_mut().enumerate() {
                *number = change(*number, beside.get(block as u64));
                assert_eq!(counts.get(block as u64), *number);
            }
            beside.fill(0);
        }
        let largest = plain.iter().max().copied().unwrap_or(0);
        assert!(counts.any(|number| number == largest) && !counts.any(|number| number > largest));
        counts.change(|_| 4);
        assert!(counts.bytes() < 100, "all are alike");
    }
}
